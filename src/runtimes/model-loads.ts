import { ask, fieldsOf, listOf, textOf } from './answers.ts'
import type { ControlledServer, ModelLoads, ProbeFetch } from './runtime.ts'

const isDone = (status: number) => status >= 200 && status < 300

/** A request without a prompt loads its model; one that asks to keep it for no time lets it go. */
export const ollamaLoads: ModelLoads = {
  load: async (server, { id, modality }) => {
    const embeds = modality === 'embedding'
    // Models that only embed have no other interface.
    return isDone(
      embeds
        ? await server.post('/api/embed', { model: id, input: [] })
        : await server.post('/api/generate', { model: id }),
    )
  },
  unload: async (server, { id }) => isDone(await server.post('/api/generate', { model: id, keep_alive: 0 })),
}

/** Version 0.4 or newer. A model may have several instances in memory. */
export const lmStudioLoads: ModelLoads = {
  load: async (server, { id }) => isDone(await server.post('/api/v1/models/load', { model: id })),
  unload: async (server, { id }) => {
    const { status, body } = await ask(server.get, '/api/v1/models')
    if (status !== 200) return false
    const model = listOf(fieldsOf(body).models)?.find(({ key }) => key === id)
    const instances = listOf(model?.loaded_instances) ?? []
    for (const { id: instance } of instances) {
      const named = { instance_id: textOf(instance) ?? '' }
      if (!isDone(await server.post('/api/v1/models/unload', named))) return false
    }
    return true
  },
}

/**
 * Sleep mode, which a server has that was started for development with it. At level 1 the weights wait in the memory of the computer;
 * at level 2 they would be gone. An adapter is taken out by its name, where the server was started for that
 * (`VLLM_ALLOW_RUNTIME_LORA_UPDATING`); to put one in, a server must be told where its files are, which the gateway does not know.
 */
export const vllmLoads: ModelLoads = {
  load: (server) => commandVllm(server, '/wake_up'),
  unload: (server, { id, adapts }) =>
    adapts === undefined
      ? commandVllm(server, '/sleep?level=1')
      : adapterRemoved(server, id, '/v1/unload_lora_adapter'),
}

/** null: it was not started for that. */
async function adapterRemoved(server: ControlledServer, id: string, path: string): Promise<boolean | null> {
  const status = await server.post(path, { lora_name: id })
  return status === 404 ? null : isDone(status)
}

async function commandVllm(server: ControlledServer, path: string): Promise<boolean | null> {
  if ((await vllmDozes(server.get)) === null) return null
  return isDone(await server.post(path, {}))
}

/** Whether it sleeps; null: it offers no sleep mode. */
export async function vllmDozes(get: ProbeFetch): Promise<boolean | null> {
  const { status, body } = await ask(get, '/is_sleeping')
  const dozes = fieldsOf(body).is_sleeping
  return status === 200 && typeof dozes === 'boolean' ? dozes : null
}

/** Only of a server that was started without a model: any other has no such path. */
export const llamaCppLoads: ModelLoads = {
  load: async (server, { id }) => isDone(await server.post('/models/load', { model: id })),
  unload: async (server, { id }) => isDone(await server.post('/models/unload', { model: id })),
}
