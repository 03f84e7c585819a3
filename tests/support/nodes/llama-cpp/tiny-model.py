"""Writes a tiny llama model with random weights: a real file for a real server, whose words mean nothing.

Usage: tiny-model.py FILE CONTEXT_TOKENS [chat|embed|rank]. One that ranks is of the kind qwen3, which has a head for scores.
"""
import sys
import numpy as np
from gguf import GGUFWriter, TokenType

path, context = sys.argv[1], int(sys.argv[2])
ranks = sys.argv[3:] == ["rank"]
width, layers, heads, inner = 64, 2, 4, 128
words = [" " + w for w in "the a of and to in is it on as".split()]
letters = [chr(c) for c in range(32, 127)]
tokens = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)]
tokens += [(f"<0x{b:02X}>", TokenType.BYTE) for b in range(256)]
tokens += [(t.replace(" ", "\u2581"), TokenType.NORMAL) for t in words + letters]
rng = np.random.default_rng(7)
weight = lambda *shape: (rng.standard_normal(shape) * 0.05).astype(np.float32)

w = GGUFWriter(path, "qwen3" if ranks else "llama")
w.add_context_length(context)
w.add_embedding_length(width)
w.add_block_count(layers)
w.add_feed_forward_length(inner)
w.add_head_count(heads)
w.add_head_count_kv(heads)
w.add_rope_dimension_count(width // heads)
w.add_layer_norm_rms_eps(1e-5)
w.add_vocab_size(len(tokens))
w.add_tokenizer_model("llama")
w.add_token_list([t for t, _ in tokens])
w.add_token_scores([0.0 if k != TokenType.NORMAL else -1.0 for _, k in tokens])
w.add_token_types([k for _, k in tokens])
w.add_unk_token_id(0); w.add_bos_token_id(1); w.add_eos_token_id(2)
w.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: ")
w.add_tensor("token_embd.weight", weight(len(tokens), width))
w.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))
w.add_tensor("output.weight", weight(len(tokens), width))
for i in range(layers):
    b = f"blk.{i}."
    for name, shape in {"attn_q": (width, width), "attn_k": (width, width), "attn_v": (width, width), "attn_output": (width, width), "ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}.items():
        w.add_tensor(f"{b}{name}.weight", weight(*shape))
    for name in ("attn_norm", "ffn_norm"):
        w.add_tensor(f"{b}{name}.weight", np.ones(width, dtype=np.float32))
if ranks:
    w.add_classifier_output_labels(["yes", "no"])
    w.add_tensor("cls.output.weight", weight(2, width))
    for i in range(layers):
        for name in ("attn_q_norm", "attn_k_norm"):
            w.add_tensor(f"blk.{i}.{name}.weight", np.ones(width // heads, dtype=np.float32))
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
