"""Small model files of every format, as bytes, made without the libraries that own them."""

from __future__ import annotations

import json
import struct
from math import inf

FLT_MAX = 3.4028234663852886e38  # the largest float32 number

LIGHTGBM = b"""tree
version=v4
num_class=2
num_tree_per_iteration=2
label_index=0
max_feature_idx=2
objective=multiclass num_class:2
feature_names=a b c
feature_infos=[-1:1] [0:1] [0:9]
tree_sizes=298 179

Tree=0
num_leaves=3
num_cat=0
split_feature=0 2
split_gain=1 1
threshold=-0.5 1.0000000180025095e-35
decision_type=2 4
left_child=1 -1
right_child=-2 -3
leaf_value=0.5 -0.25 1e-3
leaf_weight=1 1 1
leaf_count=1 1 1
internal_value=0 0
internal_weight=0 0
internal_count=3 2
is_linear=0
shrinkage=1


Tree=1
num_leaves=1
num_cat=0
split_feature=
split_gain=
threshold=
decision_type=
left_child=
right_child=
leaf_value=0.125
leaf_count=
internal_value=
is_linear=0
shrinkage=1


end of trees

feature_importances:
a=1

parameters:
[boosting: gbdt]
end of parameters

pandas_categorical:null
"""

_XGBOOST = {
    "learner": {
        "attributes": {},
        "feature_names": ["a", "b"],
        "feature_types": ["float", "float"],
        "gradient_booster": {
            "name": "dart",
            "gbtree": {
                "name": "gbtree",
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "1"},
                    "iteration_indptr": [0, 1],
                    "tree_info": [0],
                    "trees": [
                        {
                            "base_weights": [0.0, -0.5, 0.5],
                            "categories": [],
                            "default_left": [1, 0, 0],
                            "id": 0,
                            "left_children": [1, -1, -1],
                            "parents": [2147483647, 0, 0],
                            "right_children": [2, -1, -1],
                            "split_conditions": [0.75, -0.5, 0.5],
                            "split_indices": [1, 0, 0],
                            "split_type": [0, 0, 0],
                            "tree_param": {"num_nodes": "3", "size_leaf_vector": "1"},
                        }
                    ],
                },
            },
            "weight_drop": [0.5],
        },
        "learner_model_param": {
            "base_score": "[3E-1]",
            "boost_from_average": "1",
            "num_class": "0",
            "num_feature": "2",
            "num_target": "1",
        },
        "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}},
    },
    "version": [3, 2, 0],
}

XGBOOST_JSON = json.dumps(_XGBOOST).encode()

SILVA = b"""classifier-forest 2
classifier-decision-tree 3 2
0 1
SPLIT 0 0.5
LEAF 3 1
LEAF 0 4
classifier-decision-tree 3 2
0 1
LEAF 1 5
"""


ENSEMBLE_JSON = b"""{
"format": "carvegbm-ensemble",
"version": 1,
"task": "binary",
"classes": ["no", "yes"],
"class_dtype": "<U3",
"n_features": 2,
"feature_names": ["a", "b"],
"base_score": [0.25],
"average": 1,
"threshold": 0.0,
"tie": "negative",
"compares": "raw",
"link": "logistic",
"link_scale": 1.0,
"input_precision": "float64",
"sum_precision": "float64",
"roots": [0, 5],
"nodes": [
{"feature": 1, "threshold": 0.5, "left": 1, "right": 2, "missing": "left"},
{"feature": 0, "threshold": "-Infinity", "left": 3, "right": 4, "missing": "right"},
{"leaf": 0, "scores": [1.5]},
{"leaf": 1, "scores": [-1e-3]},
{"leaf": 2, "scores": [-0.5]},
{"leaf": 3, "scores": [0.125]}
]
}
"""

CATEGORICAL_JSON = b"""{
"format": "carvegbm-ensemble",
"version": 2,
"task": "binary",
"classes": ["no", "yes"],
"class_dtype": "<U3",
"n_features": 2,
"feature_names": ["a", "b"],
"base_score": [0.25],
"average": 1,
"threshold": 0.0,
"tie": "negative",
"compares": "raw",
"link": "logistic",
"link_scale": 1.0,
"input_precision": "float64",
"sum_precision": "float64",
"category_rule": "label",
"unknown_category": "missing",
"categories": [{"feature": 0, "codes": [0, 1, 3], "labels": ["red", 1.5, true]}],
"roots": [0],
"nodes": [
{"feature": 0, "categories": [0, 3], "left": 1, "right": 2, "missing": "left"},
{"feature": 1, "threshold": 0.5, "left": 3, "right": 4, "missing": "right"},
{"leaf": 0, "scores": [1.5]},
{"leaf": 1, "scores": [-0.5]},
{"leaf": 2, "scores": [0.125]}
]
}
"""


CATBOOST_DOCUMENT = {
    "features_info": {
        "cat_features_hash": [
            {"hash": 3052168893, "value": "red"},
            {"hash": 593172586, "value": "3"},
        ],
        "categorical_features": [
            {
                "feature_id": "c",
                "feature_index": 0,
                "flat_feature_index": 2,
                "values": [-1242798403],
            }
        ],
        "float_features": [
            {
                "borders": [border],
                "feature_id": name,
                "feature_index": index,
                "flat_feature_index": index,
                "has_nans": True,
                "nan_value_treatment": treatment,
            }
            for index, (name, treatment, border) in enumerate(
                [("a", "AsFalse", -0.45), ("b", "AsTrue", 0.75)]
            )
        ],
    },
    "model_info": {
        "class_params": {
            "class_label_type": "String",
            "class_names": ["no", "yes"],
            "class_to_label": [0, 1],
            "classes_count": 0,
        },
        "params": {"loss_function": {"type": "Logloss", "params": {}}},
    },
    "oblivious_trees": [
        {
            "leaf_values": [-0.5, 0.25, 0.5, 1.0],
            "leaf_weights": [1, 1, 1, 1],
            "splits": [
                {
                    "border": border,
                    "float_feature_index": index,
                    "split_index": index,
                    "split_type": "FloatFeature",
                }
                for index, border in enumerate([-0.45, 0.75])
            ],
        },
        {
            "leaf_values": [0.125, -0.125],
            "leaf_weights": [1, 1],
            "splits": [
                {
                    "cat_feature_index": 0,
                    "split_index": 2,
                    "split_type": "OneHotFeature",
                    "value": -1242798403,
                }
            ],
        },
    ],
    "scale_and_bias": [1, [0.0]],
}
CATBOOST_JSON = json.dumps(CATBOOST_DOCUMENT).encode()
_BORDER = CATBOOST_DOCUMENT["oblivious_trees"][0]["splits"][1]
CATBOOST_TREES_JSON = json.dumps(
    {
        **{key: value for key, value in CATBOOST_DOCUMENT.items() if key != "oblivious_trees"},
        "trees": [{"split": _BORDER, "left": {"value": -0.5}, "right": {"value": 0.5}}],
        "scale_and_bias": [2, [0.25]],
    }
).encode()


def ubjson(value: object) -> bytes:
    """Encode as XGBoost does where it can: typed arrays of numbers, 64-bit lengths.

    A name that ends with a null character is written without it, to have a name twice.
    """
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, dict):
        items = (ubjson(key.removesuffix("\0"))[1:] + ubjson(value[key]) for key in value)
        return b"{" + b"".join(items) + b"}"
    if isinstance(value, str):
        text = value.encode()
        return b"SL" + struct.pack(">q", len(text)) + text
    if isinstance(value, list):
        head = b"#L" + struct.pack(">q", len(value))
        if value and all(isinstance(v, float) and not FLT_MAX < abs(v) < inf for v in value):
            return b"[$d" + head + struct.pack(f">{len(value)}f", *value)
        if value and all(type(v) is int and -(1 << 31) <= v < 1 << 31 for v in value):
            return b"[$l" + head + struct.pack(f">{len(value)}i", *value)
        return b"[" + head + b"".join(map(ubjson, value))
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return b"L" + struct.pack(">q", value)
        return b"H" + ubjson(str(value))[1:]
    raise TypeError(value)


XGBOOST_UBJSON = ubjson(_XGBOOST)


ALL = {
    "LightGBM text": LIGHTGBM,
    "XGBoost JSON": XGBOOST_JSON,
    "XGBoost UBJSON": XGBOOST_UBJSON,
    "SILVA": SILVA,
    "CatBoost JSON": CATBOOST_JSON,
    "CatBoost JSON of other trees": CATBOOST_TREES_JSON,
    "Ensemble JSON": ENSEMBLE_JSON,
    "Ensemble JSON with categories": CATEGORICAL_JSON,
}


def replaced(document, path, value):
    """The document with what is at `path` replaced, or removed if the value is ...."""
    document = json.loads(json.dumps(document))
    *above, last = path
    inner = document
    for key in above:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return document
