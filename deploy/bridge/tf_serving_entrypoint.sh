#!/bin/sh
# What TF Serving's image starts: one model by MODEL_NAME and MODEL_BASE_PATH, then the container's own arguments.
exec tensorflow_model_server --port=8500 --rest_api_port=8501 \
    --model_name="${MODEL_NAME:=model}" --model_base_path="${MODEL_BASE_PATH:=/models}/${MODEL_NAME}" "$@"
