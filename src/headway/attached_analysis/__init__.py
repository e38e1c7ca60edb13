"""headway's analyses on a model that headway did not make.

    hw.heads(model, data, "accuracy")        # or "next_token_loss", "logit_difference", ...; see metrics

examples (data as columns), metrics (a value per example), shared_prefix (passes that skip the layers below the first
ablated one), attached_runs (what ablations ask of a model), token_scores (attention scores from token ids alone),
pair_patching, checking (of the instruments), analyse (`hw.heads`).
"""
