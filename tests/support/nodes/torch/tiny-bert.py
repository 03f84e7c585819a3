"""Writes a tiny random model that embeds or ranks. Usage: tiny-bert.py FOLDER CONTEXT_TOKENS embed|rank"""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

folder, context, purpose = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.manual_seed(7)
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
vocabulary = {token: id for id, token in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
tokens = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokens.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
)
names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
PreTrainedTokenizerFast(tokenizer_object=tokens, model_max_length=context, **names).save_pretrained(folder)
config = BertConfig(
    vocab_size=len(vocabulary),
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=context,
    num_labels=1,
)
(BertModel if purpose == "embed" else BertForSequenceClassification)(config).save_pretrained(folder)
