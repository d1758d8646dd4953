"""tf.function calls: which functions build their graphs anew, why, and what compiling costs."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Functions and compilation",
    question="Which functions are traced or compiled again and again, and because of which argument?",
    order=70,
)
