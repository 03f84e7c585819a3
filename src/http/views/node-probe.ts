import type { Static } from '@sinclair/typebox'
import { type LookedAt, lookAt } from '../../actors/finding/look-at.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { sameServer } from '../../actors/node-rows/node-checks.ts'
import { adminObject } from '../../brand.ts'
import { type NodeProbe, type NodeProbeAsk, probedModelsMax } from '../../protocol/wire/nodes/probe.ts'
import { troubleWords } from '../../protocol/wire/nodes/trouble.ts'

const modelsNamedMax = 5

function words({ url, code, status }: LookedAt): string {
  if (code !== null || status === null) return troubleWords(code ?? 'malformed', url)
  const names = status.models.map(({ id }) => id)
  const more = names.length > modelsNamedMax ? ` and ${names.length - modelsNamedMax} more` : ''
  if (names.length === 0) return `A server of the kind ${status.kind} answers there, but it has no model yet.`
  return `A server of the kind ${status.kind} answers there, with ${names.slice(0, modelsNamedMax).join(', ')}${more}.`
}

/** Looks at a URL, and keeps nothing of it. */
export async function probed(
  { config, pool }: Pick<GatewayHandle, 'config' | 'pool'>,
  { url, api_key: apiKey = null }: Static<typeof NodeProbeAsk>,
  signal: AbortSignal,
): Promise<NodeProbe> {
  const found = await lookAt({ config, url, apiKey, signal })
  const node = (await pool.nodes()).find((row) => row.adminState !== 'revoked' && sameServer(row.url, found.url))
  const models = (found.status?.models ?? []).slice(0, probedModelsMax)
  return {
    object: `${adminObject}node_probe`,
    url: found.url,
    code: found.code,
    says: words(found),
    node_id: node?.nodeId ?? null,
    runtime_kind: found.status?.kind ?? null,
    models: models.map(({ id, contextLength, loaded }) => ({ id, context_length: contextLength, loaded })),
  }
}
