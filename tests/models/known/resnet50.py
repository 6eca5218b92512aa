"""What the tests must know of resnet50."""

PARAMETERS = 25_557_032  # as torchvision's resnet50
MEMORY_OPTIONS = {"width": 16, "image_size": 64}
