import { isOwnedBy, probeModelList } from './openai.ts'
import { withoutGuess } from './rerank.ts'
import type { RuntimeModule } from './runtime.ts'

/** `owned_by` in its model list: the sign by which it is known. */
export const demoOwner = 'penstock-demo'
/** Its only model; the id says that it is a demo (§22). */
export const demoModelId = 'demo/wordplay'

/** The built-in text generator of `demo-server.ts`. It is started, not found: discovery does not look for it. */
export const demo: RuntimeModule = {
  kind: 'demo',
  ports: [],
  detect: (get) => isOwnedBy(demoOwner, get),
  async probe(get) {
    const status = await probeModelList('demo', get)
    return { ...status, models: status.models.map((model) => ({ ...withoutGuess(model), loaded: true })) }
  },
}
