"""Folders in Pascal VOC's form, made of real photographs that come with scikit-learn and matplotlib."""

import os

import matplotlib
import sklearn.datasets
from PIL import Image

PHOTOS = {
    "china": os.path.join(os.path.dirname(sklearn.datasets.__file__), "images", "china.jpg"),  # 640 x 427: a pavilion
    "flower": os.path.join(os.path.dirname(sklearn.datasets.__file__), "images", "flower.jpg"),  # 640 x 427
    "hopper": os.path.join(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg"),  # 512 x 600: Grace Hopper
}
# (class, x1, y1, x2, y2) in shares of the photograph's sides
OBJECTS = {"flower": ("pottedplant", 0.2, 0.05, 0.75, 0.95), "hopper": ("person", 0.05, 0.03, 0.98, 1.0)}

OBJECT = """
 <object><name>{name}</name><pose>Unspecified</pose><truncated>0</truncated><difficult>{difficult}</difficult>
  <bndbox><xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox></object>"""
ANNOTATION = """<annotation><folder>VOC2007</folder><filename>{name}.jpg</filename>
 <size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size><segmented>0</segmented>{objects}
</annotation>
"""


def described(name, box, difficult=0):
    """An object's XML. The box counts pixels from 1 and names the last one, as VOC does."""
    return OBJECT.format(name=name, box=box, difficult=difficult)


class Folder:
    """An empty folder in VOC's form, to which add() adds pictures of the split trainval."""

    def __init__(self, root):
        self.root = root
        for folder in ("Annotations", "JPEGImages", "ImageSets/Main"):
            (root / folder).mkdir(parents=True)
        self.list = root / "ImageSets" / "Main" / "trainval.txt"

    def annotation(self, name):
        return self.root / "Annotations" / (name + ".xml")

    def picture(self, name):
        return self.root / "JPEGImages" / (name + ".jpg")

    def add(self, name, picture, objects):
        """A Pillow picture and the XML of its objects, joined."""
        picture.convert("RGB").save(str(self.picture(name)), "JPEG", quality=95, subsampling=0)
        text = ANNOTATION.format(name=name, size=picture.size, objects=objects)
        self.annotation(name).write_text(text, encoding="utf-8")
        with open(str(self.list), "a") as file:
            file.write(name + "\n")

    def add_photo(self, name, photo, width, height):
        """One of PHOTOS at that size, with its object."""
        label, x1, y1, x2, y2 = OBJECTS[photo]
        box = round(x1 * width) + 1, round(y1 * height) + 1, round(x2 * width), round(y2 * height)
        with Image.open(PHOTOS[photo]) as picture:
            self.add(name, picture.resize((width, height)), described(label, box))
