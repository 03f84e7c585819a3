"""Writes a llama model of a given shape with random weights.

Usage: sized-model.py FILE CONTEXT_TOKENS WIDTH LAYERS HEADS KV_HEADS INNER VOCABULARY
"""

import sys

import numpy as np
from gguf import GGUFWriter, TokenType

path = sys.argv[1]
context, width, layers, heads, kv_heads, inner, vocabulary = map(int, sys.argv[2:9])
head = width // heads
tokens = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)]
tokens += [(f"<0x{b:02X}>", TokenType.BYTE) for b in range(256)]
tokens += [(f"w{n}", TokenType.NORMAL) for n in range(vocabulary - len(tokens))]
rng = np.random.default_rng(7)
weight = lambda *shape: (rng.standard_normal(shape, dtype=np.float32) * 0.02).astype(np.float16)

w = GGUFWriter(path, "llama")
w.add_context_length(context)
w.add_embedding_length(width)
w.add_block_count(layers)
w.add_feed_forward_length(inner)
w.add_head_count(heads)
w.add_head_count_kv(kv_heads)
w.add_rope_dimension_count(head)
w.add_layer_norm_rms_eps(1e-5)
w.add_vocab_size(len(tokens))
w.add_tokenizer_model("llama")
w.add_token_list([t for t, _ in tokens])
w.add_token_scores([0.0 if k != TokenType.NORMAL else -1.0 for _, k in tokens])
w.add_token_types([k for _, k in tokens])
w.add_unk_token_id(0)
w.add_bos_token_id(1)
w.add_eos_token_id(2)
w.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: ")
w.add_tensor("token_embd.weight", weight(len(tokens), width))
w.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))
w.add_tensor("output.weight", weight(len(tokens), width))
for i in range(layers):
    b = f"blk.{i}."
    shapes = {
        "attn_q": (width, width),
        "attn_k": (kv_heads * head, width),
        "attn_v": (kv_heads * head, width),
        "attn_output": (width, width),
        "ffn_gate": (inner, width),
        "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }
    for name, shape in shapes.items():
        w.add_tensor(f"{b}{name}.weight", weight(*shape))
    for name in ("attn_norm", "ffn_norm"):
        w.add_tensor(f"{b}{name}.weight", np.ones(width, dtype=np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
