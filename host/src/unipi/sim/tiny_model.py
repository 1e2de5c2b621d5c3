"""Write a tiny GGUF whose answers are scripted, for a real engine to run.

Everything but the weights is real: tokenizer, attention, KV cache, prefix reuse, tool-call parser,
usage. The chat template picks a marker token from the messages since the last answer; the weights
make one token follow that marker, which is the whole answer or tool call, and then the end. So an
answer is the same at any temperature, and a finished answer renders to the very tokens that were
generated, which is what lets the cached count be exact.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    import gguf
    import numpy as np
    from numpy.typing import NDArray

    from unipi_hookspecs import JSON

_WIDTH = 64
_HEADS = 4
_LAYERS = 2
_FEED_FORWARD = 128
_CONTEXT = 65_536
_MAX_ACTIONS = _WIDTH - 2
_END, _START = 2, 3


class EngineUnavailable(RuntimeError):  # noqa: N818 - a state to fall back from, not a fault
    """The local engine cannot be used here; the message says why and what to install."""


@frozen
class Action:
    """One scripted answer.

    when: text to look for in the user and tool messages since the last answer. The last message
        that matches anything decides, and for it the first action of the list that matches.
        Empty: the answer when nothing matches.
    say: the whole answer: text, or calls as `tool_call` writes them, or text and then calls.
    """

    when: str
    say: str


def tool_call(name: str, **arguments: JSON) -> str:
    """The text of one tool call, for `Action.say`; several are joined by a newline.

    The arguments carry no insignificant space, so that a host that squeezes them at the door
    still replays the token that was generated. They are written in the order given, which must be
    that of the engine's grammar: at every level the required properties of the tool's schema in
    its order (the host's schemas are sorted), then the optional ones in theirs.
    """
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'


def write_model(path: str | PathLike[str], actions: Sequence[Action]) -> None:
    """Write the model file: about half a megabyte, the same bytes for the same actions.

    Args:
        path: the file to write; replaced if it is there.
        actions: at most 61 with a `when`; the last one without is the fall-back ("Done." if there
            is none).

    Raises:
        EngineUnavailable: gguf or numpy is not installed.
        ValueError: too many actions, an empty answer, the same answer twice, or a `when` beyond
            printable ASCII.
    """
    script = _script(actions)
    try:
        import gguf
        import numpy as np
    except ImportError as problem:
        raise EngineUnavailable(
            f"the local model needs {problem.name}: pip install 'unipi[local]'"
        ) from problem
    tokens, types = _vocabulary(script)
    writer = gguf.GGUFWriter(path, "llama")
    _write_settings(writer, tokens, types)
    writer.add_chat_template(chat_template([action.when for action in script[1:]]))
    for name, tensor in _tensors(np.random.default_rng(0), len(tokens), len(script)):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _script(actions: Sequence[Action]) -> list[Action]:
    """The fall-back first, then the actions in their order."""
    fallback = [action for action in actions if not action.when] or [Action("", "Done.")]
    script = [fallback[-1], *(action for action in actions if action.when)]
    if len(script) > _MAX_ACTIONS:
        raise ValueError(f"{len(script)} scripted answers; the model has room for {_MAX_ACTIONS}")
    for action in script:
        if not action.say:
            raise ValueError(f"the scripted answer to {action.when!r} is empty")
        if any(c != "\n" and not " " <= c <= "~" for c in action.when):
            raise ValueError(f"{action.when!r} is not printable ASCII, as the template needs")
    twice = {action.say for action in script if [a.say for a in script].count(action.say) > 1}
    if twice:
        # An answer is one token, and a vocabulary holds a token once.
        raise ValueError(f"two scripted answers are the same text: {min(twice)[:60]!r}")
    return script


def _literal(text: str) -> str:
    """A template string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


_HEAD = """\
{%- if tools -%}
{{- '<|im_start|>system\\n# Tools\\n<tools>' -}}
{%- for tool in tools -%}{{- '\\n' -}}{{- tool | tojson -}}{%- endfor -%}
{{- '\\n</tools>\\nTo call one, answer <tool_call>\\n' -}}
{{- '{"name": <name>, "arguments": <arguments>}\\n</tool_call><|im_end|>\\n' -}}
{%- endif -%}
{%- set state = namespace(marker='<|do0|>', text='') -%}
{%- for message in messages -%}
{%- if message.content is string -%}
{%- set state.text = message.content -%}
{%- else -%}
{%- set state.text = '' -%}
{%- for part in message.content or [] -%}
{%- if part.text is string -%}{%- set state.text = state.text + part.text -%}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- if message.role == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}{{- state.marker -}}{{- state.text -}}
{%- set state.marker = '<|do0|>' -%}
{%- for call in message.tool_calls or [] -%}
{%- set function = call.function or call -%}
{%- if not loop.first or (state.text and state.text[-1:] != '\\n') -%}{{- '\\n' -}}{%- endif -%}
{{- '<tool_call>\\n{"name": "' -}}{{- function.name -}}{{- '", "arguments": ' -}}
{%- if function.arguments is string -%}{{- function.arguments -}}
{%- else -%}{{- function.arguments | tojson(separators=(',', ':')) -}}{%- endif -%}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- else -%}
"""

_TAIL = """\
{%- if message.role == 'tool' -%}
{{- '<|im_start|>user\\n<tool_response>\\n' -}}{{- state.text -}}
{{- '\\n</tool_response><|im_end|>\\n' -}}
{%- else -%}
{{- '<|im_start|>' -}}{{- message.role -}}{{- '\\n' -}}{{- state.text -}}{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}{{- state.marker -}}
{%- endif -%}
"""


def chat_template(whens: Sequence[str]) -> str:
    """The template: renders the chat, and before each answer the marker of the action it took.

    The marker is kept while walking forward: a message that matches sets it, an answer resets it.
    A finished answer therefore sees what its generation prompt saw, and a message that matches
    nothing, such as a plugin's state, changes nothing.
    """
    pick = "".join(
        f"{{%- {'if' if i == 1 else 'elif'} {_literal(when)} in state.text -%}}"
        f"{{%- set state.marker = '<|do{i}|>' -%}}"
        for i, when in enumerate(whens, 1)
    )
    if pick:
        role = "{%- if message.role == 'user' or message.role == 'tool' -%}"
        pick = f"{role}{pick}{{%- endif -%}}{{%- endif -%}}\n"
    return _HEAD + pick + _TAIL


def _vocabulary(script: Sequence[Action]) -> tuple[list[bytes], list[int]]:
    """Tokens and their kinds: 4 specials, a marker and an answer an action, bytes, characters."""
    from gguf import TokenType

    table = [(b"<unk>", TokenType.UNKNOWN)]
    table += [(t, TokenType.CONTROL) for t in (b"<s>", b"<|im_end|>", b"<|im_start|>")]
    table += [(b"<|do%d|>" % i, TokenType.CONTROL) for i in range(len(script))]
    table += [(action.say.encode(), TokenType.USER_DEFINED) for action in script]
    table += [(b"<0x%02X>" % i, TokenType.BYTE) for i in range(256)]
    # Printable characters as pieces of their own: about one token a character.
    table += [("\u2581".encode() if c == " " else c.encode(), TokenType.NORMAL) for c in _PRINTABLE]
    return [token for token, _ in table], [int(kind) for _, kind in table]


_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


def _write_settings(writer: gguf.GGUFWriter, tokens: list[bytes], types: list[int]) -> None:
    from gguf import LlamaFileType

    writer.add_name("unipi-scripted")
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(_END)
    writer.add_add_bos_token(True)  # noqa: FBT003 - gguf's name for it
    writer.add_add_eos_token(False)  # noqa: FBT003 - gguf's name for it
    writer.add_add_space_prefix(False)  # noqa: FBT003 - gguf's name for it


def _tensors(
    rng: np.random.Generator, vocabulary: int, answers: int
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The weights by name.

    One direction of the residual stream an answer, and one more for the end. A marker points its
    answer's way, every other token the end's; the output row of each looks along its direction.
    The layers write noise, but never into these directions, so the softmax is always at one token.
    """
    import numpy as np

    def noise(*shape: int) -> NDArray[np.float32]:
        return (rng.standard_normal(shape) * 0.02).astype(np.float32)

    def apart(*shape: int) -> NDArray[np.float32]:
        matrix = noise(*shape)
        matrix[: answers + 1] = 0
        return matrix

    embedding, output = noise(vocabulary, _WIDTH), np.zeros((vocabulary, _WIDTH), np.float32)
    embedding[:, : answers + 1] = 0
    embedding[:, answers] = 4
    output[_END, answers] = 8
    for i in range(answers):
        marker = _START + 1 + i
        embedding[marker, answers] = 0
        embedding[marker, i] = 4
        output[marker + answers, i] = 8
    yield "token_embd.weight", embedding
    yield "output.weight", output
    yield "output_norm.weight", np.ones(_WIDTH, np.float32)
    for block in range(_LAYERS):
        name = f"blk.{block}"
        for part in ("attn_q", "attn_k", "attn_v"):
            yield f"{name}.{part}.weight", noise(_WIDTH, _WIDTH)
        yield f"{name}.attn_output.weight", apart(_WIDTH, _WIDTH)
        yield f"{name}.ffn_gate.weight", noise(_FEED_FORWARD, _WIDTH)
        yield f"{name}.ffn_up.weight", noise(_FEED_FORWARD, _WIDTH)
        yield f"{name}.ffn_down.weight", apart(_WIDTH, _FEED_FORWARD)
        yield f"{name}.attn_norm.weight", np.ones(_WIDTH, np.float32)
        yield f"{name}.ffn_norm.weight", np.ones(_WIDTH, np.float32)


DEMO_PROMPT = "Please fix the greeting, look at the change and run its test."
DEMO_FILES = {
    "greet.py": 'def greet(name: str) -> str:\n    return f"Helo, {name}!"\n',
    "test_greet.py": (
        "import unittest\n\nfrom greet import greet\n\n\n"
        "class GreetTest(unittest.TestCase):\n"
        "    def test_it_greets_by_name(self) -> None:\n"
        '        self.assertEqual(greet("Ada"), "Hello, Ada!")\n'
    ),
}
"""The project of the demo, path to content; it is committed before the agent starts."""


def demo_actions() -> list[Action]:
    """The scripted agent of the demo: it reads, edits, looks at the diff, tests, and finishes.

    Each step is keyed on what the tool before it reports, in `DEMO_FILES` under git.
    """
    typo = {"newText": "Hello", "oldText": "Helo"}
    return [
        Action("FAILED (", "The test still fails; I stop here."),
        Action("\nOK", "The greeting is fixed: it says Hello now, and its test passes."),
        Action("1 file changed", tool_call("bash", command="python3 -m unittest -q")),
        Action("Made 1 replacement", tool_call("bash", command="git --no-pager diff --stat")),
        Action("def greet", tool_call("edit", path="greet.py", edits=[typo])),
        Action(
            "fix the greeting",
            "I read the file first.\n" + tool_call("read", path="greet.py"),
        ),
    ]
