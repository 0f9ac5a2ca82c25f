"""Tools by name."""

from __future__ import annotations

import pytest

from artelier.errors import InvalidRequest, NotFound
from artelier.tools import ToolRegistry, tool


@tool(side_effect=False)
def read_file(path: str) -> str:
    """Read."""
    return path


@tool(side_effect=False)
def calculator(expression: str) -> str:
    """Compute."""
    return expression


def test_registry_is_ordered_by_name_whatever_the_order_of_imports():
    registry = ToolRegistry([read_file, calculator])

    assert registry.names == ("calculator", "read_file")
    assert [item.name for item in registry] == ["calculator", "read_file"]
    assert [schema.name for schema in registry.schemas()] == ["calculator", "read_file"]
    assert [schema.name for schema in registry.schemas(["read_file"])] == ["read_file"]
    assert "read_file" in registry
    assert len(registry) == 2


def test_registry_refuses_two_tools_of_one_name():
    other = tool(read_file.function)

    with pytest.raises(InvalidRequest, match="two tools are named `read_file`"):
        ToolRegistry([read_file, other])


@pytest.mark.parametrize("name", ["readfile", "", "x" * 1_000_000])
def test_unknown_tool_is_not_found_and_suggests_a_name(name: str):
    with pytest.raises(NotFound) as caught:
        ToolRegistry([read_file, calculator]).get(name)

    assert len(str(caught.value)) < 1_000
    if name == "readfile":
        assert "Did you mean `read_file`?" in str(caught.value)
