import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { RigError, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import { gatewayOn, model, type Target } from './targets.ts'

/** As many as one request may have, and what a node takes for each. */
const inputsAsked = 2_048
const inputMs = 5
const nodeCounts = [1, 2, 4] as const
const answerWithinMs = 60_000

/** A model server that embeds one request after the other, at a pace of its own. */
function startEmbedder(): { readonly url: string; readonly stop: () => void } {
  let free = Promise.resolve()
  const embed = async (inputs: readonly string[]) => {
    const done = free.then(() => Bun.sleep(inputs.length * inputMs))
    free = done
    await done
    const data = inputs.map((text, index) => ({ object: 'embedding', index, embedding: [text.length, 1] }))
    const usage = { prompt_tokens: inputs.length, total_tokens: inputs.length }
    return Response.json({ object: 'list', model, data, usage })
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === '/v1/embeddings') return embed(((await request.json()) as { input: readonly string[] }).input)
      if (pathname !== '/v1/models') return new Response(null, { status: 404 })
      return Response.json({ object: 'list', data: [{ id: model, object: 'model', task: 'feature-extraction' }] })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => void server.stop(true) }
}

/** Seconds until all are there, in their order. */
async function measure({ url, key }: Target, inputs: number): Promise<number> {
  const began = performance.now()
  const response = await fetch(new URL('/v1/embeddings', url), {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, input: Array.from({ length: inputs }, (_, at) => 'x'.repeat(1 + (at % 50))) }),
    signal: AbortSignal.timeout(answerWithinMs),
  })
  const answer = (await response.json()) as { readonly data?: readonly { readonly embedding: readonly number[] }[] }
  const well = answer.data?.length === inputs && answer.data.every(({ embedding: [n] }, at) => n === 1 + (at % 50))
  if (!well) throw new RigError(`embeddings: ${response.status}, not the vectors that were asked for`)
  return (performance.now() - began) / 1_000
}

/** One large request on one, two and four nodes, against what as many nodes can do at best. */
export async function benchEmbeddings(options: Options, inputs: number = inputsAsked): Promise<string> {
  const embedders = nodeCounts.map(() => startEmbedder()).concat(startEmbedder())
  const seconds: number[] = []
  try {
    for (const count of nodeCounts) {
      const urls = embedders.slice(0, count).map(({ url }) => url)
      const target = await gatewayOn(urls, { cpu: options.pin?.proxyCpu ?? null })()
      const rounds: number[] = []
      for (let round = 0; round < options.rounds; round++) rounds.push(await measure(target, inputs))
      seconds.push(median(rounds))
      await target.stop()
    }
  } finally {
    for (const { stop } of embedders) stop()
    await stopAll()
  }
  const [alone = Number.NaN] = seconds
  const rows = nodeCounts.map((count, at) => {
    const took = seconds[at] ?? Number.NaN
    return [String(count), took.toFixed(2), (alone / took).toFixed(2), (alone / took / count).toFixed(2)]
  })
  const load = `${options.rounds} rounds, one request of ${inputs} inputs, ${inputMs} ms an input at a node`
  return ['## Embeddings', circumstances(load), markdown(['nodes', 's', 'times as fast', '÷ nodes'], rows)].join('\n\n')
}
