"""Name scopes: time, memory and executions of every layer, and of every source line."""

from outpace.tools.scopes.layers import of_model
from outpace.tools.scopes.page import analyse
from outpace.tools.tool import Tool

TOOL = Tool(
    id="scopes",
    title="Name scopes",
    question="Which layer, which part of the model, or which line of code takes the time and the memory?",
    order=35,
    analyse=analyse,
    brief=True,
    of_model=of_model,
)
