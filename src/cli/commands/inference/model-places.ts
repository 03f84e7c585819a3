import type { Node } from '../../../protocol/wire/admin/admin.ts'
import { firstTokenText } from '../../frame/measured.ts'
import { rounded, table } from '../../frame/table.ts'
import type { Terminal } from '../../frame/terminal.ts'

type Model = Node['runtimes'][number]['models'][number]

/** Whether it is in the memory of its node; null: its server does not say. */
function memoryState({ loaded, loading_since: since }: Model, nowMs: number): string | null {
  if (since !== null) return `loading ${Math.max(0, Math.round((nowMs - Date.parse(since)) / 1_000))} s`
  return loaded === null ? null : loaded ? 'loaded' : 'cold'
}

/** Each model on each node: where a request for it would go, and what it would find there. */
export function placesTable(terminal: Terminal, nodes: readonly Node[], nowMs: number): string {
  const rows = nodes.flatMap((node) =>
    node.runtimes.flatMap((runtime) =>
      runtime.models.map((model) => [
        model.model,
        node.name,
        model.ready,
        memoryState(model, nowMs),
        model.memory_mb,
        model.in_flight,
        runtime.queue_depth,
        model.cache_match === null ? null : `${Math.round(model.cache_match * 100)} %`,
        firstTokenText(model.first_token, nowMs),
        rounded(model.tokens_per_second, 1),
        rounded(model.prompt_tokens_per_second),
        model.resident_mb,
      ]),
    ),
  )
  const byModel = rows.toSorted(([a], [b]) => String(a).localeCompare(String(b)))
  const columns = [
    'MODEL',
    'NODE',
    'READY',
    'MEMORY',
    'MB',
    'IN FLIGHT',
    'QUEUE',
    'CACHED',
    'FIRST TOKEN',
    'TOK/S',
    'BELIEVED TO READ TOK/S',
    'MEASURED MB',
  ]
  return rows.length === 0 ? '' : `\n${table(terminal, columns, byModel)}`
}
