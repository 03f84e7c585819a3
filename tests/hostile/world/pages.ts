import type { HostileGateway } from './hostile-gateway.ts'
import { leaksIn } from './leaks.ts'
import type { Fault } from './verdict.ts'

/** What operators read of nodes and models. */
export const poolPages = ['/v1/admin/nodes', '/v1/admin/models', '/metrics'] as const
const requestsPage = '/v1/admin/requests'
/** Of the newest requests so many are explained, from each gateway. */
const explainedMax = 20

/** What explains a request names the model that its client asked for, also one that nobody has. */
const askedModel = /"model":"xmkx[^"]*"/g

interface Read {
  readonly texts: readonly string[]
  readonly faults: readonly Fault[]
}

async function readPages(gateway: HostileGateway, url: string, paths: readonly string[]): Promise<Read> {
  const headers = { 'x-svc-admin-token': gateway.tokens.viewer, connection: 'close' }
  const texts = await Promise.all(paths.map(async (path) => (await fetch(url + path, { headers })).text()))
  const faults = texts.flatMap((text, at) =>
    leaksIn(text.replace(askedModel, '')).map((leak): Fault => ({ kind: 'leak', detail: `${leak} at ${paths[at]}` })),
  )
  return { texts, faults }
}

/** Markers and secrets in what operators read of nodes and models, at each gateway. */
export async function leakedNames(gateway: HostileGateway): Promise<readonly Fault[]> {
  const read = await Promise.all(gateway.urls.map((url) => readPages(gateway, url, poolPages)))
  return read.flatMap(({ faults }) => faults)
}

/** The same in all that is read, also in what explains the newest requests. */
export async function leakedPages(gateway: HostileGateway): Promise<readonly Fault[]> {
  const faults: Fault[] = [...(await leakedNames(gateway))]
  for (const url of gateway.urls) {
    const list = await readPages(gateway, url, [requestsPage])
    const { requests = [] } = JSON.parse(list.texts[0] ?? '{}') as {
      requests?: readonly { readonly request_id: string }[]
    }
    const explained = requests.slice(0, explainedMax).map(({ request_id: id }) => `${requestsPage}/${id}`)
    faults.push(...list.faults, ...(await readPages(gateway, url, explained)).faults)
  }
  return faults
}
