"""A loop in PyTorch: hora run --gpus 2 --set environment=torch --set params.lr=0.1 -- python pytorch_digits.py

`torch.distributed` finds its ranks by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which every script has. The
environment needs torch and scikit-learn.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

from hora import run

STEPS = 200
on_gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if on_gpu else "gloo")
device = torch.device("cuda" if on_gpu else "cpu")
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
own = torch.arange(run.rank, 1500, run.size)
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(device)
first = 0
if (folder := run.latest_checkpoint()) is not None:
    saved = torch.load(folder / "state.pt", weights_only=True)
    net.load_state_dict(saved["net"])
    first = saved["step"]
begin = torch.tensor(first)
dist.broadcast(begin, 0)
model = DistributedDataParallel(net)  # sends the weights of rank 0 to all
optimizer = torch.optim.SGD(model.parameters(), lr=run.params.get("lr", 0.1))
for step in range(int(begin) + 1, STEPS + 1):
    chosen = own[torch.randint(len(own), (32,))]
    loss = torch.nn.functional.cross_entropy(model(images[chosen].to(device)), labels[chosen].to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    run.report(step=step, loss=loss.item())
    stopping = run.should_stop()
    if stopping or step % 50 == 0:
        with torch.no_grad():
            right = net(images[1500:].to(device)).argmax(1).cpu() == labels[1500:]
        run.report(epoch=-(-step // 50), val_accuracy=right.float().mean().item())
        with run.checkpoint(step) as folder:
            torch.save({"net": net.state_dict(), "step": step}, folder / "state.pt")
    if stopping:
        break
dist.destroy_process_group()
