import { jsonHeaders } from './bodies.ts'
import type { Suffered } from './faults.ts'
import type { Exchange } from './http-connection.ts'

/** Whose signs the node shows to a prober. */
export type Speaks = 'openai' | 'vllm' | 'llama.cpp'

export interface Installed {
  readonly speaks: Speaks
  readonly models: readonly string[]
  readonly contextLength: number | null
  readonly slots: number
  /** Requests under way: `/slots` of a llama.cpp shows this number of slots busy. */
  readonly busy: number
}

/** Answers `/health`, `/v1/models` and the paths by which a kind of server is known; false for any other path. */
export function answerProbe(exchange: Exchange, installed: Installed, faults: Suffered): boolean {
  const body = probeBody(exchange.request.path, installed, faults)
  if (body === null) return false
  const unhealthy = faults.get('unhealthyOnly') ?? faults.get('flapping')
  const failing = faults.get('status500') ?? faults.get('status429') ?? faults.get('status400')
  if (unhealthy || failing) {
    const status = faults.get('unhealthyOnly')?.status ?? 503
    const error = { message: 'Loading model', type: 'unavailable_error', code: status }
    exchange.respond(failing ? 500 : status, jsonHeaders, JSON.stringify({ error }))
  } else if (!faults.get('hang')) {
    exchange.respond(200, jsonHeaders, JSON.stringify(body))
  }
  return true
}

function probeBody(path: string, installed: Installed, faults: Suffered): unknown {
  if (path === '/health') return { status: 'ok' }
  if (path === '/v1/models') return { object: 'list', data: installed.models.map((id) => modelEntry(id, installed)) }
  if (path === '/version' && installed.speaks === 'vllm') return { version: '0.0.0-fake' }
  if (installed.speaks !== 'llama.cpp') return null
  if (path === '/props') {
    return {
      default_generation_settings: { n_ctx: installed.contextLength ?? 0 },
      total_slots: installed.slots,
      model_path: '/srv/fake/weights.gguf',
      build_info: 'b0-fake',
    }
  }
  const busy = faults.get('slotsFull') ? installed.slots : installed.busy
  const slot = (id: number) => ({ id, n_ctx: installed.contextLength ?? 0, is_processing: id < busy })
  return path === '/slots' ? Array.from({ length: installed.slots }, (_, id) => slot(id)) : null
}

function modelEntry(id: string, { speaks, contextLength }: Installed): object {
  const base = { id, object: 'model', created: 1_700_000_000 }
  if (speaks === 'llama.cpp') return { ...base, owned_by: 'llamacpp', meta: { n_ctx_train: contextLength } }
  return {
    ...base,
    owned_by: speaks === 'vllm' ? 'vllm' : 'fake',
    root: id,
    parent: null,
    max_model_len: contextLength,
  }
}
