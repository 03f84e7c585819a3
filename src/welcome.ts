import type { GatewayHandle } from './actors/gateway.ts'
import { product } from './brand.ts'
import type { DataFolder } from './data-folder.ts'

export interface WelcomeFacts {
  readonly gateway: Pick<GatewayHandle, 'baseUrl' | 'config' | 'router'>
  /** null: no data folder, the operator's own PostgreSQL. */
  readonly folder: DataFolder | null
  /** The credentials were made by this start: the only time they are shown. */
  readonly first: boolean
}

const loopback = new Set(['127.0.0.1', 'localhost', '::1'])

function poolLines({ gateway }: WelcomeFacts): string[] {
  const models = new Set(
    gateway.router
      .table()
      .routes.filter(({ ready }) => ready)
      .map(({ modelId }) => modelId),
  )
  const named = [...models].toSorted().slice(0, 8)
  if (models.size === 0) return ['  No model server answers yet. Add one:  ./penstock nodes add http://HOST:PORT']
  const more = models.size > named.length ? ` and ${models.size - named.length} more` : ''
  const lines = [`  Models      ${named.join(', ')}${more}`]
  if (named.every((model) => model.startsWith('demo/'))) {
    lines.push('              (a built-in demo text generator, not a language model: no model server was found here)')
  }
  return lines
}

function curlLine({ gateway, folder }: WelcomeFacts): string[] {
  const ready = gateway.router.table().routes.find((route) => route.ready)
  const key = folder?.readCredentials()?.gateway_key
  if (ready === undefined || key === undefined) return []
  const body = JSON.stringify({ model: ready.modelId, stream: true, messages: [{ role: 'user', content: 'Hello!' }] })
  return [
    '',
    '  Try it:',
    '',
    `curl -N ${gateway.baseUrl()}/v1/api/chat/completions -H 'authorization: Bearer ${key}' -H 'content-type: application/json' -d '${body}'`,
  ]
}

/** What `npm start` prints when it is ready. Secrets are shown by the first start only. */
export function welcome(facts: WelcomeFacts): string {
  const { gateway, folder, first } = facts
  const base = gateway.baseUrl()
  const { SVC_HOST: host } = gateway.config
  const lines = [
    '',
    `${product} is ready`,
    '',
    `  OpenAI base ${base}/v1/api`,
    `  Docs        ${base}/docs`,
    ...(folder === null ? [] : [`  Credentials ${folder.credentialsFile}`]),
    ...poolLines(facts),
    ...(first ? curlLine(facts) : []),
  ]
  if (!loopback.has(host) && !base.startsWith('https:')) {
    lines.push('', `  Warning: listening on ${host} over plain http. Put TLS in front before others use it.`)
  }
  return `${lines.join('\n')}\n\n`
}
