"""What Lightning's users write: devices and nodes as numbers. Prints rank, size and local rank."""

import sys
import time

import lightning
import torch


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: "tuple[torch.Tensor, torch.Tensor]", index: int) -> torch.Tensor:
        images, targets = batch
        return torch.nn.functional.mse_loss(self.layer(images), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
trainer = lightning.Trainer(
    accelerator="cpu",
    strategy="ddp",
    num_nodes=int(sys.argv[1]),
    devices=int(sys.argv[2]),
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=8))
place = trainer.global_rank, trainer.world_size, trainer.local_rank
sys.stdout.write(f"place {' '.join(map(str, place))}\n")  # in one piece: a launcher labels what is written at once
trainer.strategy.barrier()
time.sleep(0.1)  # gloo's threads let go of the last barrier; else torch 2.13 aborts in one end of four
torch.distributed.destroy_process_group()
