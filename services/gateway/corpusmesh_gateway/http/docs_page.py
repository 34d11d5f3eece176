"""The page /docs: every call with its parameters and a curl example, as one file without scripts or outside parts."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

_STYLE = """
:root{color-scheme:light dark;--line:#8884}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem 1.5rem 4rem}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}
summary{cursor:pointer}summary b{display:inline-block;min-width:4.2rem;font:600 12px ui-monospace,monospace}
code,pre{font:13px/1.45 ui-monospace,monospace}
pre{overflow:auto;padding:.6rem;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%}
td,th{border-top:1px solid var(--line);padding:.25rem .6rem;text-align:left;vertical-align:top}
p.text{white-space:pre-line}.quiet{opacity:.7}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
DOCS_CSP = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_BASE = "$CORPUSMESH_HTTP"
_MAX_EXAMPLE_DEPTH = 3


def render_docs(spec: Mapping[str, Any]) -> str:
    """Render the page.

    Args:
        spec: The OpenAPI document.

    Returns:
        HTML.
    """
    info = spec["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(info['title'])} API</title><style>{_STYLE}</style>",
        f"<h1>{_text(info['title'])} {_text(info['version'])}</h1>",
        f"<p class=text>{_text(info['description'])}</p>",
        "<p>For machines: <a href=openapi.json>openapi.json</a>. In the examples, <code>CORPUSMESH_HTTP</code> is this",
        " server's address and <code>CORPUSMESH_API_KEY</code> your key.</p>",
    ]
    for tag in spec["tags"]:
        parts.append(f"<h2>{_text(tag['name'])}</h2><p class=text>{_text(tag['description'])}</p>")
        for path, operations in spec["paths"].items():
            for verb, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    parts.extend(_operation(spec, path, verb, operation))
    parts.append("</html>")
    return "".join(parts)


def _operation(spec: Mapping[str, Any], path: str, verb: str, operation: Mapping[str, Any]) -> Iterable[str]:
    yield f"<details id={_text(operation['operationId'])}><summary><b>{verb.upper()}</b> <code>{_text(path)}</code> "
    yield f"<span class=quiet>{_text(operation['summary'])}</span></summary>"
    yield f"<p class=text>{_text(operation['description'])}</p>"
    rows = [
        (parameter["name"], parameter["in"], parameter["schema"], parameter.get("description", ""))
        for parameter in operation["parameters"]
    ]
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        properties = content.get("schema", {}).get("properties", {})
        place = "form" if media_type.startswith("multipart") else "body"
        rows += [(name, place, schema, schema.get("description", "")) for name, schema in properties.items()]
    if rows:
        yield "<table><tr><th>Name<th>In<th>Type<th>What it is"
        for name, place, schema, description in rows:
            kind = _text(_type_name(schema))
            yield f"<tr><td><code>{_text(name)}</code><td>{place}<td>{kind}<td>{_text(description)}"
        yield "</table>"
    yield f"<pre>{_text(_curl(spec, path, verb, operation))}</pre></details>"


def _curl(spec: Mapping[str, Any], path: str, verb: str, operation: Mapping[str, Any]) -> str:
    lines = [f'curl -sS -X {verb.upper()} "{_BASE}{path}"', '-H "Authorization: Bearer $CORPUSMESH_API_KEY"']
    content = operation.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        lines.append("-F file=@guide.pdf")
    elif "application/json" in content:
        example = _example(spec, content["application/json"]["schema"], 0)
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(example, ensure_ascii=False)}'"]
    return " \\\n  ".join(lines)


def _example(spec: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        schema = spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return schema["enum"][-1]
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            properties = schema.get("properties", {})
            shown = required or [name for name, item in properties.items() if not item.get("readOnly")][:4]
            if depth >= _MAX_EXAMPLE_DEPTH:
                return {}
            return {name: _example(spec, properties[name], depth + 1) for name in shown}
        case "array":
            return [_example(spec, schema["items"], depth + 1)]
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case _:
            return "2030-01-01T00:00:00Z" if schema.get("format") == "date-time" else "…"


def _type_name(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition(".")[2]
    if schema.get("type") == "array":
        return f"list of {_type_name(schema['items'])}"
    return str(schema.get("format") or schema.get("type", ""))


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
