// Launches and copies one after the other, without Python in between (see graph.py).

// Until all are done, or one has found something: `done` is its number then.
EXPORT void rt_replay(Graph* graph) {
    Launch* launch = (Launch*)graph->launch;
    GraphNode* nodes = (GraphNode*)graph->nodes;
    for (; graph->done < graph->count; graph->done++) {
        GraphNode* node = &nodes[graph->done];
        u64 started = monotonic_time();
        copy_bytes(node->to, node->source, node->bytes);
        if (node->launch) {
            copy_bytes(graph->launch, node->launch, sizeof(Launch));
            launch->ticks = started;
            launch->now = launch->tag = ++graph->events;
            if (*(volatile u32*)&graph->stop) return;
            int alone = node->small && node->on_one < node->small;
            share_out((Team*)graph->team, node->run, alone ? 1 : node->workers);
            graph->events = launch->now;
            graph->printf_lines += launch->printf_lines;
            node->nanoseconds = monotonic_time() - started;
            node->on_one = node->nanoseconds * (alone ? 1 : node->workers);
            if (launch->kept || launch->stop || launch->suspect) return;
        }
    }
}
