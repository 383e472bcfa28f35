#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with AdamW and saves model and optimizer over one name: train_torch.py OUTPUT_FILE [SAVES]"""
import os
import sys

import torch
from torch import nn

path, saves = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
target = torch.randn(64, 16)
for step in range(1, saves * 25 + 1):
    x = torch.randn(64, 64)
    loss = nn.functional.mse_loss(model(x), torch.sin(x @ target / 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)
        print(f"step {step:4d}  loss {loss.item():.4f}  saved {path}")
