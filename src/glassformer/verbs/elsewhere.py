"""Names that other tools use for our flags, TOML keys, verbs and tasks.

The page docs/not-here.md lists what is not supported at all.
"""

from collections.abc import Callable, Collection
from pathlib import Path

NOT_HERE = "docs/not-here.md"
SEE_NOT_HERE = f"{NOT_HERE} lists what is not supported and what to use instead"
MAX_COUNTED_BYTES = 50_000_000  # bytes; lines of larger files are not counted, so the length of an epoch is not shown

# Our flags, and their names in other tools. Of several flags of ours, the first that the verb has is suggested.
SAME_FLAGS = {
    ("rate",): "lr learning_rate base_lr max_lr peak_lr lr_rate step_size",
    ("steps",): "max_steps num_steps n_steps train_steps total_steps max_iters num_iters iterations num_train_steps",
    ("minutes",): "max_time time_limit max_minutes time_budget max_train_time",
    (
        "batch_size",
        "batch_tokens",
    ): "batch_size batchsize bs train_batch_size per_device_train_batch_size mini_batch_size "
    "per_device_eval_batch_size eval_batch_size",
    ("batch_tokens",): "max_tokens_per_batch tokens_per_batch",
    ("accumulate",): "gradient_accumulation_steps grad_accum accumulation_steps accumulate_grad_batches update_freq",
    ("warmup",): "warmup_steps num_warmup_steps warm_up warmup_updates warmup_ratio warmup_epochs",
    ("schedule",): "lr_scheduler lr_scheduler_type scheduler lr_schedule lr_decay",
    ("final_rate",): "min_lr end_lr final_lr",
    ("optimizer",): "optim optimiser",
    ("weight_decay",): "wd l2 decay",
    ("clip",): "max_grad_norm grad_clip clip_grad clip_norm gradient_clip gradient_clip_val grad_norm_clip",
    ("beta1",): "adam_beta1",
    ("beta2",): "adam_beta2",
    ("ema",): "ema_decay use_ema",
    ("label_smoothing",): "label_smoothing_factor smoothing",
    ("dropout",): "dropout_rate dropout_prob hidden_dropout_prob drop p_dropout",
    ("drop_path",): "drop_path_rate stochastic_depth layerdrop",
    ("d_model",): "hidden_size hidden_dim embed_dim embedding_dim emb_dim n_embd dim model_dim d_hidden width",
    ("d_ff",): "intermediate_size ffn_dim ff_dim dim_feedforward mlp_dim ffn_hidden_size",
    ("num_layers",): "n_layers n_layer layers num_hidden_layers depth num_blocks",
    ("num_heads",): "n_heads n_head heads num_attention_heads nhead",
    ("vocab_size",): "vocabulary_size n_vocab bpe_size",
    (
        "max_len",
        "context",
        "length",
    ): "max_length max_seq_length max_seq_len seq_len seq_length sequence_length block_size "
    "context_length context_size max_position_embeddings lookback input_length",
    ("horizon",): "pred_len prediction_length forecast_horizon forecast_length",
    ("size",): "image_size img_size resolution",
    ("patch",): "patch_size patch_len",
    ("stride",): "patch_stride",
    ("grey",): "gray grayscale greyscale",
    ("augment",): "augmentation data_augmentation",
    ("erase",): "random_erasing reprob",
    ("preset",): "model_size",
    ("init",): "model model_name model_name_or_path pretrained from_pretrained base_model pretrained_model checkpoint "
    "finetune_from",
    ("tokenizer_from",): "tokenizer_name tokenizer_path pretrained_tokenizer",
    ("data", "file"): "train_file train_data train_path dataset dataset_name data_path data_dir data_file train input "
    "input_file csv corpus train_dir",
    (
        "valid",
    ): "validation_file valid_file val_file eval_file dev_file val_data valid_data validation_data dev val eval_data",
    ("test", "data"): "test_file test_data test_path test_dir",
    ("valid_fraction",): "val_split validation_split val_size test_size val_fraction eval_split dev_ratio val_ratio",
    (
        "text_columns",
        "text_column",
    ): "text_column text_columns text_col text_field text_key input_column sentence_column",
    ("label_column",): "label_col target_column target label_field label_key labels class_column",
    ("source_column",): "src_column source_col source_field",
    ("target_column",): "tgt_column target_col target_field",
    ("columns",): "features feature_columns target_columns channels value_columns",
    (
        "out",
    ): "output_dir output_folder output_path out_dir save_dir save_path output logging_dir log_dir work_dir run_dir "
    "model_dir checkpoint_dir default_root_dir",
    ("resume",): "resume_from_checkpoint resume_from continue_from resume_training load_checkpoint",
    ("overwrite",): "overwrite_output_dir force",
    ("eval_every",): "eval_steps eval_interval val_interval eval_freq val_check_interval evaluation_steps eval_iters",
    ("checkpoint_every",): "save_steps save_every save_interval checkpoint_interval save_freq",
    ("keep",): "save_total_limit keep_last_n max_checkpoints",
    ("patience",): "early_stopping early_stopping_patience early_stop es_patience",
    ("metric",): "metric_for_best_model monitor eval_metric",
    ("seed",): "random_seed random_state manual_seed",
    ("device",): "gpu gpus cuda use_cuda no_cuda use_cpu accelerator cpu",
    ("precision",): "fp16 bf16 amp mixed_precision half use_fp16 dtype",
    ("compile",): "torch_compile",
    ("shard",): "fsdp deepspeed zero zero_stage",
    ("tensorboard",): "wandb report_to logger use_wandb",
    ("num_beams",): "beam beams beam_size num_beam beam_width",
    ("max_new_tokens",): "max_tokens max_length max_gen_len max_generate_tokens num_tokens",
    ("do_sample",): "sample sampling",
    ("temperature",): "temp",
    ("run",): "model model_path checkpoint model_name_or_path run_dir",
}
EPOCH_FLAGS = "epochs epoch num_epochs n_epochs max_epochs num_train_epochs nb_epochs train_epochs"
NOT_SUPPORTED = (
    "lora use_lora lora_r lora_rank lora_alpha peft qlora adapter load_in_4bit load_in_8bit quantize quantization "
    "reward_model dpo ppo rlhf push_to_hub gguf onnx"
)

# What to type here, and the names of that verb or task in other tools.
VERBS_ELSEWHERE = {
    "train TASK": "fit learn pretrain pre-train sft",
    "train TASK --init MODEL": "finetune fine-tune fine_tune tune",
    "predict RUN": "generate infer inference run complete chat prompt answer embed encode sample",
    "eval RUN": "evaluate test score validate metrics",
    "train translate": "translate translation seq2seq summarize summarise summarization mt nmt t5 bart marian",
    "train classify": "classify classification classifier sentiment text-classification",
    "train lm": "lm gpt gpt2 llama clm causal-lm language-model language-modeling text-generation",
    "train mlm": "mlm bert roberta masked-lm fill-mask",
    "train images": "images image vit vision image-classification",
    "train forecast": "forecast forecasting timeseries time-series patchtst",
    "bench RUN": "benchmark speed profile perf",
    "convert": "export",
    "data": "download dataset datasets",
    "explore RUN": "visualize visualise view ui gui web",
    "inspect LOOK": "attention summary info",
}
NO_SUCH_TASK = (
    "lora qlora peft ner token-classification qa question-answering squad rlhf dpo ppo serve api speech asr whisper "
    "tts video diffusion detection detr segmentation swin onnx gguf quantize regression retrieval rag"
)


def flag_elsewhere(word: str, known: Collection[str], epoch: Callable[[], int | None] = lambda: None) -> str | None:
    """A sentence that names our flag for another tool's flag; None if the word is not listed above.

    `known` are the names of a verb's settings. `epoch` counts the steps of an epoch, if that is quick.
    """
    word = word.replace("-", "_").lower()
    if word in known:
        return None
    if word in EPOCH_FLAGS.split() and "steps" in known:
        count = epoch()
        said = f"; one epoch of your data is about {count:,} steps" if count else ""
        return f"{flag(word)}: set the length of training with --steps N or --minutes M{said}"
    for ours, theirs in SAME_FLAGS.items():
        name = next((name for name in ours if name in known), None)
        if name is not None and word in theirs.split():
            return called(word, name)
    if word in NOT_SUPPORTED.split():
        return f"{flag(word)} is not supported. {NOT_HERE} says what to use instead"
    return None


def called(word: str, name: str) -> str:
    """A sentence that names our flag and how it differs from theirs."""
    if name == "run":
        return f"{flag(word)} is not a flag here: name the model right after the verb"
    differs = ""
    if name == "batch_tokens" and "tokens" not in word:
        differs = ", and counts tokens"
    elif name == "warmup" and word in ("warmup_ratio", "warmup_epochs"):
        differs = ", and counts steps"
    return f"{flag(word)} is called {flag(name)} here{differs}"


def steps_of_an_epoch(file: Path, batch_size: int) -> int | None:
    """The number of lines of a table divided by the batch size; None if they cannot be counted quickly."""
    if file.suffix not in (".csv", ".tsv", ".jsonl") or not file.is_file() or file.stat().st_size > MAX_COUNTED_BYTES:
        return None
    with file.open("rb") as opened:
        return -(-sum(1 for _ in opened) // batch_size)


def verb_elsewhere(word: str, *, what: str = "verb") -> str | None:
    """A sentence that names our verb or task for another tool's; None if the word is not listed above."""
    word = word.lower()
    if word in NO_SUCH_TASK.split():
        return f"unknown {what} {word!r}. {NOT_HERE} says what to use instead"
    ours = next((ours for ours, theirs in VERBS_ELSEWHERE.items() if word in theirs.split()), None)
    return None if ours is None else f"unknown {what} {word!r}: use `glassformer {ours}`"


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")
