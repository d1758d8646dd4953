# SPDX-License-Identifier: Apache-2.0
"""Serves the questions as tools of the Model Context Protocol, over standard input and output."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from outpace._version import __version__
from outpace.mcp import skill
from outpace.mcp.answers import Answer
from outpace.mcp.folders import ServedFolders
from outpace.mcp.questions import DryRun, Questions
from outpace.mcp.size_limit import render_json, shorten_text
from outpace.model import OutpaceError

try:
    from mcp.server.mcpserver import MCPServer
    from mcp_types import CallToolResult, TextContent, ToolAnnotations
except ImportError as error:
    raise OutpaceError("'outpace mcp' needs the protocol's SDK: pip install 'outpace[mcp]'") from error


def build_server(folders: ServedFolders, dry_run: DryRun | None = None) -> MCPServer[Any]:
    """Return the MCP server of some folders."""
    server: MCPServer[Any] = MCPServer(
        "outpace", instructions=skill().split("---\n", 2)[2].strip(), version=__version__, log_level="ERROR"
    )
    questions = Questions(folders, dry_run)
    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    for name in vars(Questions):
        if not name.startswith("_"):
            server.tool(name=name, annotations=reads)(_wrap_question(getattr(questions, name)))
    return server


def _wrap_question(question: Callable[..., Answer]) -> Callable[..., Any]:
    """Wrap a question as a tool whose errors are returned as an `Answer` that abstains, so that
    all results have one schema.
    """
    signature = inspect.signature(question, eval_str=True)
    shape: type[Answer] = signature.return_annotation

    @functools.wraps(question)
    def tool(*arguments: Any, **keywords: Any) -> Any:
        try:
            answer = question(*arguments, **keywords)
        except OutpaceError as error:
            answer = shape(abstained=True, reason=shorten_text(error))
        except Exception as error:  # an error in Outpace: the server goes on and returns it in the same schema
            answer = shape(abstained=True, reason=shorten_text(f"Outpace failed here ({type(error).__name__}: {error})."))
        return CallToolResult(content=[TextContent(type="text", text=render_json(answer))], structured_content=asdict(answer))

    signature = signature.replace(return_annotation=Annotated[CallToolResult, shape])
    tool.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect`, and so the SDK, reads of any callable
    tool.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()} | {
        "return": signature.return_annotation
    }
    del tool.__wrapped__  # the wrapped function's annotations are texts, which the SDK cannot use
    return tool
