"""headway's instruments on a model that headway did not make: its heads, found, verified, edited and removed.

    attached = hw.attach(model, example=batch)
    attached.sites                        # AttachedSite: name "dec1.cross", kind, layer, kept, d_head, n_kv_heads
    attached.heads                        # headway.model.sites.Head; prints "dec1.cross.h2"; site_name "dec1.cross"
    attached.logits(batch)                # a tensor, a tuple (positional) or a mapping (keywords); no gradient
    attached.head_outputs(batch)          # {"dec1.cross": Tensor "batch query head d_head"}
    attached.attention(batch)             # {"dec1.cross": Tensor "batch head query key"}
    attached.query_mask(batch)            # {"dec1.cross": Tensor "batch query"}: real tokens; key_mask for keys
    with attached.intervene({"dec1.cross": edit}):   # edit: Tensor "batch query head d_head" -> the same shape
        attached.logits(batch)            # or model(...), model.generate(...)
    attached.blocks                       # Block: path, module and site names of each layer, in order; None if unknown
    attached.verify(batch)                # identity, weight slices, every site fired; done by itself on first use

A head that was pruned is missing from `site.kept`; axis `head` of every tensor follows `site.kept`.

sites (what a site is), finding (attentions in a module), multihead (`nn.MultiheadAttention` written out), weights
(attention weights), masks (real tokens), verification, attached (`hw.attach`), contexts (`hw.ablated`, `hw.patched`,
`hw.captured`), pruning (`hw.prune` of a model), cutting (heads out of weights), pruned_files (`hw.load_pruned`).
"""
