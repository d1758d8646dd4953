import os, sys
import numpy as np
from PIL import Image, ImageDraw
import keras
from keras import layers

root = os.path.join(sys.argv[1], "shapes")
CLASSES = ["circle", "square", "triangle"]
PER_CLASS = 500

# ---- make the pictures, if they are not there
if not os.path.isdir(root):
    rng = np.random.default_rng(0)
    for name in CLASSES:
        os.makedirs(os.path.join(root, name))
        for i in range(PER_CLASS):
            noise = rng.integers(0, 120, size=(40, 40, 3), dtype=np.uint8)
            img = Image.fromarray(noise).resize((160, 160), Image.BILINEAR)
            draw = ImageDraw.Draw(img)
            cx, cy = rng.integers(50, 110, 2).tolist()
            r = int(rng.integers(20, 45))
            colour = tuple(int(c) for c in rng.integers(90, 255, 3))
            if name == "circle":
                draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill=colour)
            elif name == "square":
                draw.rectangle((cx - r, cy - r, cx + r, cy + r), fill=colour)
            else:
                draw.polygon([(cx, cy - r), (cx - r, cy + r), (cx + r, cy + r)], fill=colour)
            img.save(os.path.join(root, name, f"{i:04d}.jpg"), quality=88)

common = dict(validation_split=0.2, seed=42, image_size=(64, 64), batch_size=16)
train_ds = keras.utils.image_dataset_from_directory(root, subset="training", **common)
val_ds = keras.utils.image_dataset_from_directory(root, subset="validation", **common)

model = keras.Sequential([
    keras.Input((64, 64, 3)),
    layers.RandomFlip("horizontal"),
    layers.RandomRotation(0.1),
    layers.RandomZoom(0.1),
    layers.Rescaling(1 / 255),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(48, 3, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(len(CLASSES)),
])
model.compile(optimizer="adam",
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=24)
