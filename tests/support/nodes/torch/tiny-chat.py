"""Writes a tiny random model that chats, as the cache of Hugging Face holds one that was downloaded.

Usage: tiny-chat.py CACHE NAME CONTEXT_TOKENS
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

cache, name, context = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
commit = "0" * 40
repository = cache / f"models--{name.replace('/', '--')}"
folder = repository / "snapshots" / commit
folder.mkdir(parents=True)
(repository / "refs").mkdir()
(repository / "refs" / "main").write_text(commit)
torch.manual_seed(7)
roles = ["<|end|>", "<|user|>", "<|assistant|>"]
# A token for each byte, so that a prompt has as many tokens as characters.
vocabulary = {token: id for id, token in enumerate([*roles, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
tokens = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokens.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokens,
    eos_token=roles[0],
    pad_token=roles[0],
    additional_special_tokens=roles[1:],
    model_max_length=context,
)
tokenizer.chat_template = (
    "{% for m in messages %}<|{{ 'assistant' if m.role == 'assistant' else 'user' }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
tokenizer.save_pretrained(folder)
config = LlamaConfig(
    vocab_size=len(vocabulary),
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=context,
    eos_token_id=0,
    pad_token_id=0,
    bos_token_id=None,
)
LlamaForCausalLM(config).save_pretrained(folder)
