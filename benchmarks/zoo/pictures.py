"""Networks of pictures: those of `make bench` at a smaller size, and the families of timm.

Rectifiers and maxima are replaced by smooth functions: on a kink float32 and float64 part, whoever computes.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.scoring.inputs import CLASSES
from benchmarks.scoring.inputs import pictures as smooth_pictures
from benchmarks.zoo.problem import Network
from benchmarks.zoo.routed import class_loss
from moso.models import build_model
from moso.models.compat import import_timm

SMOOTH = {"relu": nn.SiLU, "relu6": nn.SiLU, "hardswish": nn.SiLU, "hardsigmoid": nn.Sigmoid}


def pictures(size: int) -> Callable[[int], list[Any]]:
    """A maker of labelled pictures `[3, size, size]`."""
    return lambda count: list(zip(*smooth_pictures(count, size), strict=True))


def smooth(model: nn.Module) -> nn.Module:
    """The network with smooth functions in place of its rectifiers and maxima."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            kind = SMOOTH.get(type(child).__name__.lower())
            if kind is not None:
                setattr(parent, name, kind())
            elif isinstance(child, nn.MaxPool2d):
                setattr(parent, name, nn.AvgPool2d(child.kernel_size, child.stride, child.padding))
    return model


def settled(model: nn.Module, size: int) -> nn.Module:
    """The network after one look at noise in training mode, so that batch-norm has statistics of its own."""
    model.train()
    with torch.no_grad():
        model(torch.randn(8, 3, size, size))
    return model


def own(name: str, size: int) -> Callable[[], nn.Module]:
    """A maker of one of moso's own networks."""
    return lambda: build_model(name, (3, size, size), CLASSES, seed=int(torch.randint(2**31, ())))


def resnet18() -> nn.Module:
    """timm's ResNet-18, channels 16 to 48."""
    import_timm()
    from timm.models.resnet import BasicBlock, ResNet

    blocks: Any = BasicBlock  # timm's signature asks for an instance where it takes the class
    # An older timm has no narrow one.
    narrow: Any = {"channels": (16, 24, 32, 48)} if "channels" in inspect.signature(ResNet).parameters else {}
    network: nn.Module = ResNet(blocks, (2, 2, 2, 2), num_classes=CLASSES, stem_width=16, **narrow)
    return network


def efficientnet() -> nn.Module:
    """timm's EfficientNet-B0 at a quarter of its width and half of its depth."""
    import_timm()
    from timm.models._efficientnet_builder import decode_arch_def, round_channels
    from timm.models.efficientnet import EfficientNet

    stages = [
        ["ds_r1_k3_s1_e1_c16_se0.25"],
        ["ir_r2_k3_s2_e6_c24_se0.25"],
        ["ir_r2_k5_s2_e6_c40_se0.25"],
        ["ir_r3_k3_s2_e6_c80_se0.25"],
        ["ir_r3_k5_s1_e6_c112_se0.25"],
        ["ir_r4_k5_s2_e6_c192_se0.25"],
        ["ir_r1_k3_s1_e6_c320_se0.25"],
    ]
    narrow = partial(round_channels, multiplier=0.25)
    network: nn.Module = EfficientNet(
        decode_arch_def(stages, 0.5),  # type: ignore[no-untyped-call]
        num_classes=CLASSES,
        num_features=narrow(1280),
        round_chs_fn=narrow,
        act_layer=nn.SiLU,
    )
    return network


def mobilenet() -> nn.Module:
    """timm's smallest MobileNetV3."""
    network: nn.Module = import_timm().create_model("mobilenetv3_small_050", num_classes=CLASSES)
    return network


def convnext() -> nn.Module:
    """timm's ConvNeXt, with layer scales."""
    import_timm()
    from timm.models.convnext import ConvNeXt

    network: nn.Module = ConvNeXt(num_classes=CLASSES, depths=(1, 1, 2, 1), dims=(16, 24, 32, 48), patch_size=2)
    return network


def vision_transformer() -> nn.Module:
    """timm's vision transformer, 3 layers of width 48."""
    import_timm()
    from timm.models.vision_transformer import VisionTransformer

    network: nn.Module = VisionTransformer(
        img_size=32, patch_size=8, embed_dim=48, depth=3, num_heads=3, num_classes=CLASSES
    )
    return network


def swin(version: int) -> nn.Module:
    """timm's Swin (position tables) or Swin V2 (continuous positions, `logit_scale`), shifted windows of 4 x 4."""
    import_timm()
    from timm.models.swin_transformer import SwinTransformer
    from timm.models.swin_transformer_v2 import SwinTransformerV2

    kind = SwinTransformer if version == 1 else SwinTransformerV2
    network: nn.Module = kind(
        img_size=32,
        patch_size=4,
        window_size=4,
        embed_dim=24,
        depths=(2, 1),
        num_heads=(2, 4),
        num_classes=CLASSES,
    )
    return network


def mixer() -> nn.Module:
    """timm's MLP-Mixer, 3 blocks of width 48."""
    import_timm()
    from timm.models.mlp_mixer import MlpMixer

    network: nn.Module = MlpMixer(num_classes=CLASSES, img_size=32, patch_size=4, num_blocks=3, embed_dim=48)
    return network


def levit() -> nn.Module:
    """timm's LeViT, whose attention biases are cached in evaluation mode."""
    import_timm()
    from timm.models.levit import Levit

    network: nn.Module = Levit(
        img_size=32, num_classes=CLASSES, embed_dim=(32, 48, 64), key_dim=8, depth=(1, 1, 1), num_heads=(2, 3, 4)
    )
    return network


def of_pictures(description: str, build: Callable[[], nn.Module], size: int = 32) -> Network:
    """A network of labelled pictures."""
    return Network(description, lambda: settled(smooth(build()), size), pictures(size), class_loss)


NETWORKS = {
    "resnet8": of_pictures("CIFAR ResNet of 8 layers, width 16", own("resnet8-w16", 16), 16),
    "resnet20": of_pictures("CIFAR ResNet of 20 layers, width 8", own("resnet20-w8", 16), 16),
    "resnet18": of_pictures("ResNet-18 of timm, narrow", resnet18),
    "efficientnet": of_pictures("EfficientNet-B0 of timm, narrow", efficientnet),
    "vit": of_pictures("vision transformer of timm", vision_transformer),
    "mobilenetv3": of_pictures("MobileNetV3 of timm", mobilenet),
    "convnext": of_pictures("ConvNeXt of timm, layer scale", convnext),
    "swin": of_pictures("Swin of timm, tables of relative positions", lambda: swin(1)),
    "swinv2": of_pictures("Swin V2 of timm, logit_scale", lambda: swin(2)),
    "mixer": of_pictures("MLP-Mixer of timm", mixer),
    "levit": of_pictures("LeViT of timm, biases cached in evaluation mode", levit),
}
