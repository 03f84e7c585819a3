import { ask, believable, countOf, fieldsOf, textOf } from './answers.ts'
import { ranks, teiDialect } from './rerank.ts'
import { idleStatus, type RuntimeModel, type RuntimeModule } from './runtime.ts'

/** Largest batch if `/info` does not report it (the default of `--max-client-batch-size`). */
const documentsMaxDefault = 32

/**
 * Hugging Face's Text Embeddings Inference: one model that embeds, classifies or ranks, as `/info` says. None of them
 * chats, and one that classifies is of no use. https://huggingface.github.io/text-embeddings-inference
 */
export const tei: RuntimeModule = {
  kind: 'tei',
  ports: [],
  async detect(get) {
    const { model_type: type } = fieldsOf((await ask(get, '/info')).body)
    return ['reranker', 'embedding', 'classifier'].some((work) => Object.hasOwn(fieldsOf(type), work))
  },
  async probe(get) {
    const [health, answer] = await Promise.all([ask(get, '/health'), ask(get, '/info')])
    if (health.status !== 200 || answer.status !== 200) {
      return idleStatus('tei', health.status === 503 ? 'loading' : 'down')
    }
    const info = fieldsOf(answer.body)
    const model = {
      id: modelName(textOf(info.served_model_name) ?? textOf(info.model_id) ?? ''),
      contextLength: countOf(info.max_input_length),
      ready: true,
      loaded: true,
    }
    const documentsMax = countOf(info.max_client_batch_size) ?? documentsMaxDefault
    const does = (work: string) => Object.hasOwn(fieldsOf(info.model_type), work)
    const models: readonly RuntimeModel[] = does('reranker')
      ? [ranks(model, { scoreKind: 'probability', documentsMax })]
      : does('embedding')
        ? [{ ...model, modality: 'embedding' }]
        : []
    return { ...idleStatus('tei', 'down'), state: 'ready', models: believable(models) }
  },
  rerank: teiDialect,
}

/** A model from a folder is called by its path, which must not leave the node. */
function modelName(id: string): string {
  return /^[./~]|\\/.test(id) ? (id.split(/[/\\]/).findLast((part) => part !== '') ?? '') : id
}
