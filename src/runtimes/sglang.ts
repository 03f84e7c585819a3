import { ask, fieldsOf } from './answers.ts'
import { modalityByName } from './modality.ts'
import { isOwnedBy } from './openai.ts'
import { servedAs } from './rerank.ts'
import type { RuntimeModule } from './runtime.ts'
import { probeServing } from './vllm.ts'

/** Of a model that does not generate: it embeds, unless it is called after something else. */
const workOf = (id: string) => modalityByName(id) ?? 'embedding'

/** Its `/health` is 503 while it warms up. */
export const sglang: RuntimeModule = {
  kind: 'sglang',
  ports: [],
  detect: (get) => isOwnedBy('sglang', get),
  async probe(get) {
    const [status, info] = await Promise.all([probeServing('sglang', 'loading', get), ask(get, '/get_model_info')])
    if (fieldsOf(info.body).is_generation !== false) return status
    return { ...status, models: status.models.map((model) => servedAs(model, workOf(model.id), 'probability')) }
  },
}
