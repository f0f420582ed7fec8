"""transformers: a Trainer's samples, scored without writing a loss; a tiny BERT with random weights, no download."""

# ruff: noqa: I001 - moso comes first: with it, transformers imports even beside a torchvision made for another torch
import moso
from moso.integrations.transformers import MosoCallback, score

import numpy as np
from datasets import Dataset
from sklearn.datasets import load_digits
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
# A row of grey values is a text of 64 words, of 17 different ones.
dataset = Dataset.from_dict({"input_ids": pixels[:200].astype(int), "labels": labels[:200]})
config = BertConfig(
    vocab_size=17,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=64,
)
config.num_labels = 10
model = BertForSequenceClassification(config)
arguments = TrainingArguments(
    "runs/trainer",
    num_train_epochs=2,
    per_device_train_batch_size=20,
    gradient_accumulation_steps=2,
    warmup_steps=2,
    save_strategy="no",
    dataloader_pin_memory=False,
    disable_tqdm=True,
)

callback = MosoCallback("runs/transformers", samples=4, overwrite=True)
trainer = Trainer(model, arguments, train_dataset=dataset, callbacks=[callback])
trainer.train()
scores = score(trainer, callback.trajectory)
kept = moso.select(scores, ratio=0.3, labels=labels[:200])

rates = [float(np.max(point.learning_rates)) for point in callback.trajectory]
print(f"rates of the recorded updates: {rates}")
print(f"kept {len(kept)} of {len(dataset)}")
