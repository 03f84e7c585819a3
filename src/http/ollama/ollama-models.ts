import { hash } from 'node:crypto'
import { Elysia } from 'elysia'
import { ollamaBase, otherTag, readOllamaBody } from '../../actors/operations/ollama-place.ts'
import { brand, product } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { readJsonText } from '../../protocol/json/json-body.ts'
import { noSuchModel } from '../../protocol/validation/missing-model.ts'
import type { Model } from '../../protocol/wire/inference/models.ts'
import { OllamaShowRequest } from '../../protocol/wire/inference/ollama.ts'
import { secondMs } from '../../time.ts'
import type { HttpContext, HttpExchange } from '../frame/context.ts'
import { inferenceAccess } from '../inference/inference-access.ts'
import { requestId } from '../plugins/request-id.ts'
import { callableRoutes, modelsOf } from '../views/visible-models.ts'

/** The Ollama whose interface this is; clients look whether it is new enough. */
const spokenVersion = '0.13.0'
/** No model leaves the memory by a time that anybody here knows. */
const never = '9999-12-31T23:59:59Z'
/** Of a request to describe a model. Its clients send more than a name. */
const showBytesMax = 16 * 1024
/** What Ollama has a word for. */
const capabilities: Partial<Record<Model['svc']['modality'], readonly string[]>> = {
  chat: ['completion', 'tools'],
  embedding: ['embedding'],
}

interface Asked {
  readonly exchange: HttpExchange
  readonly request: Request
}

async function visible(context: HttpContext, { exchange, request }: Asked): Promise<readonly Model[]> {
  const { router } = context.gateway
  const access = await inferenceAccess(context, request, exchange.address)
  exchange.keyId = access.keyId
  exchange.proved = true
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  const routes = callableRoutes(router.table(), access, Date.now())
  return modelsOf(routes, access.customerId).filter(({ svc }) => svc.modality in capabilities)
}

/** Nodes do not say what a model is made of. */
const details = { parent_model: '', format: '', family: '', families: [], parameter_size: '', quantization_level: '' }
/** Clients tell models apart by it. */
const digestOf = (id: string) => hash('sha256', id)

const listed = ({ id, created }: Model) => ({
  name: id,
  model: id,
  modified_at: new Date(created * secondMs).toISOString(),
  size: 0,
  digest: digestOf(id),
  details,
})

const running = (model: Model) => {
  const { modified_at: _, ...rest } = listed(model)
  return { ...rest, expires_at: never, size_vram: 0, context_length: model.svc.context_length ?? 0 }
}

const architecture = 'unknown'

const shown = ({ created, svc }: Model) => ({
  modelfile: '',
  parameters: '',
  template: '',
  details,
  model_info: {
    'general.architecture': architecture,
    ...(svc.context_length === null ? {} : { [`${architecture}.context_length`]: svc.context_length }),
  },
  capabilities: capabilities[svc.modality],
  modified_at: new Date(created * secondMs).toISOString(),
})

async function show(context: HttpContext, asked: Asked) {
  const models = await visible(context, asked)
  const { request } = asked
  const text = await context.connections.body(request, readJsonText(request, showBytesMax, context.jsonTypes))
  const { model: wanted } = readOllamaBody(text, OllamaShowRequest)
  const found = models.find(({ id }) => id === wanted) ?? models.find(({ id }) => id === otherTag(wanted))
  if (found === undefined) {
    const detail = noSuchModel(
      wanted,
      models.map(({ id }) => id),
      `${ollamaBase}/tags`,
    )
    throw new Problem('model_not_found', { param: 'model', detail })
  }
  return shown(found)
}

/** What Ollama's clients ask of models (§28): those of the account, as far as Ollama has a word for them. */
export const ollamaModels = (context: HttpContext) =>
  new Elysia()
    .use(requestId(context))
    // Clients look whether somebody is there.
    .get('/', () => 'Ollama is running')
    // Discovery knows by `svc` that there is a gateway and no model server: it would ask itself.
    .get(`${ollamaBase}/version`, () => ({ version: spokenVersion, [brand]: { product } }))
    .get(`${ollamaBase}/tags`, async (asked) => ({ models: (await visible(context, asked)).map(listed) }))
    .get(`${ollamaBase}/ps`, async (asked) => {
      const models = await visible(context, asked)
      return { models: models.filter(({ svc }) => svc.loaded === true).map(running) }
    })
    .post(`${ollamaBase}/show`, (asked) => show(context, asked), { parse: 'none' })
