import { isOwnedBy } from './openai.ts'
import type { RuntimeModule } from './runtime.ts'
import { probeServing } from './vllm.ts'

/** Its `/health` is 503 while it warms up. */
export const sglang: RuntimeModule = {
  kind: 'sglang',
  ports: [],
  detect: (get) => isOwnedBy('sglang', get),
  probe: (get) => probeServing('sglang', 'loading', get),
}
