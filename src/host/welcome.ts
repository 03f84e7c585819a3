import { product } from '../brand.ts'

export interface WelcomeFacts {
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly host: string
  /** By which other computers may reach it as well. */
  readonly otherUrls: readonly string[]
  /** Things that the operator should fix, one sentence each. */
  readonly notes: readonly string[]
  /** Models that can answer now. */
  readonly models: readonly string[]
  /** null without a data folder, i.e. with the operator's own PostgreSQL. */
  readonly credentials: {
    readonly file: string
    /** `absent`: `SVC_ADMIN_TOKENS` has the tokens, so that no start wrote one. `gone`: a start wrote it, and it is there no more. */
    readonly state: 'there' | 'absent' | 'gone'
  } | null
  /** The gateway key that this start has made and shows once. null at later starts. */
  readonly newKey: string | null
}

const loopback = new Set(['127.0.0.1', 'localhost', '::1'])
const modelsNamedMax = 8

function poolLines(models: readonly string[]): string[] {
  const named = models.toSorted().slice(0, modelsNamedMax)
  if (named.length === 0) return ['  No model server answers yet. Add one with:  ./penstock nodes add http://HOST:PORT']
  const more = models.length > named.length ? ` and ${models.length - named.length} more` : ''
  const lines = [`  Models      ${named.join(', ')}${more}`]
  if (named.every((model) => model.startsWith('demo/'))) {
    lines.push(
      '              (this is a built-in demo text generator, because no model server was found on this computer)',
    )
  }
  return lines
}

function curlLines({ baseUrl, models, newKey }: WelcomeFacts): string[] {
  const [model] = models
  if (newKey === null) return []
  // A container's file is not at hand, and no later start shows the key.
  if (model === undefined)
    return [`  Gateway key ${newKey}`, '              (for clients; this is the only start that shows it)']
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello!' }] })
  const headers = `-H 'authorization: Bearer ${newKey}' -H 'content-type: application/json'`
  return ['', '  Try it:', '', `curl -N ${baseUrl}/v1/chat/completions ${headers} -d '${body}'`]
}

function credentialsLines({ credentials }: WelcomeFacts): string[] {
  if (credentials === null) return []
  const { file, state } = credentials
  if (state === 'there') return [`  Credentials ${file}`]
  if (state === 'absent')
    return ['  Credentials the tokens of SVC_ADMIN_TOKENS; this start made no others and wrote no file']
  return [
    `  Credentials ${file} is missing. Put it back, or make a new admin token with:  ./penstock reset-admin`,
    '              (existing tokens and keys keep working)',
  ]
}

/** The text that a start prints when everything is ready. Only the first start shows secrets. */
export function welcome(facts: WelcomeFacts): string {
  const { baseUrl, host, models } = facts
  const lines = [
    '',
    `${product} is ready`,
    '',
    `  OpenAI base ${baseUrl}/v1`,
    ...facts.otherUrls.map((url, at) => `  ${at === 0 ? 'Also at    ' : '           '} ${url}`),
    `  Docs        ${baseUrl}/docs`,
    `  Console     ${baseUrl}/console`,
    ...credentialsLines(facts),
    ...poolLines(models),
    ...facts.notes.map((note) => `  Note        ${note}`),
    ...curlLines(facts),
  ]
  if (!loopback.has(host) && !baseUrl.startsWith('https:')) {
    lines.push(
      '',
      `  Warning: the gateway listens on ${host} without TLS. Put a TLS proxy in front before others use it.`,
    )
  }
  return `${lines.join('\n')}\n\n`
}
