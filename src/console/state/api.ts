import { isAttended } from './attended.ts'
import { signOut, token } from './session.ts'

/** The operator's brand stands in headers and in one key of a chat request; the gateway writes it into the page. */
export const brand = document.documentElement.dataset.brand ?? ''
const adminHeader = `x-${brand}-admin-token`
export const approverHeader = `x-${brand}-approver-token`
const unattendedHeader = `x-${brand}-unattended`
/** For calls without a body. */
export const reasonHeader = `x-${brand}-reason`

/** What the gateway said instead of what was asked for. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
  ) {
    super(message)
  }
}

/** What is said where no answer came: browsers word a network failure each in their own way. */
const unreachable = 'The gateway cannot be reached'

/** Why something could not be read or done, in a sentence of the gateway's, or of ours. */
export const refusalFrom = (error: unknown): Refusal =>
  error instanceof Refusal ? error : new Refusal(0, 'unreachable', unreachable, null)
export const whyOf = (error: unknown): string => refusalFrom(error).message

/** Below the path that the page was served from, so that a proxy may add a prefix. */
export const urlOf = (path: string) => new URL(path.replace(/^\//, ''), document.baseURI)

/** The gateway that has served this page. */
export const gatewayUrl = (): string => urlOf('.').href.replace(/\/+$/, '')

/** A further script of this page. */
export const assetUrl = (name: string): string => urlOf(`/console/assets/${name}`).href

interface ProblemMembers {
  readonly code?: string
  readonly detail?: string
  readonly title?: string
  readonly error?: { readonly code?: string; readonly message?: string }
}

export async function refusalOf(response: Response): Promise<Refusal> {
  const body = (await response.json().catch(() => ({}))) as ProblemMembers
  const code = body.code ?? body.error?.code ?? 'unknown'
  const text = body.detail ?? body.error?.message ?? body.title ?? `The gateway answered ${response.status}`
  return new Refusal(response.status, code, text, response.headers.get('x-request-id'))
}

export interface Call {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** It is sent even if the page is left. */
  readonly keepalive?: boolean
}

/** Calls with this token. Throws a `Refusal`. */
export async function callWith(
  used: string,
  path: string,
  { method = 'GET', body, headers, signal, keepalive = false }: Call = {},
): Promise<Response> {
  const response = await fetch(urlOf(path), {
    method,
    keepalive,
    cache: 'no-store',
    headers: {
      [adminHeader]: used,
      ...(isAttended() ? {} : { [unattendedHeader]: 'true' }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  })
  if (response.ok) return response
  throw await refusalOf(response)
}

export const sessionOver = 'Your session has ended. Sign in again.'

/** Calls with the session. Throws a `Refusal`; a session that has ended signs out. */
export async function callAdmin(path: string, call: Call = {}): Promise<Response> {
  const used = token.value
  try {
    return await callWith(used ?? '', path, call)
  } catch (error) {
    // The token of a second admin is refused with 401, too: that is no word about the session.
    const isOver = error instanceof Refusal && error.status === 401 && call.headers?.[approverHeader] === undefined
    if (isOver && token.value === used) signOut(sessionOver)
    throw error
  }
}

export async function readAdmin<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await callAdmin(path, signal === undefined ? {} : { signal })).json()) as T
}

/** With a customer's key; the operator types it in, and nothing keeps it. */
export function callAsCustomer(path: string, key: string, { method = 'GET', body, signal }: Call = {}) {
  return fetch(urlOf(path), {
    method,
    cache: 'no-store',
    headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  })
}

let known: Promise<ReadonlySet<string>> | null = null

/** `GET /v1/admin/nodes`, …: what this gateway serves. A view whose routes are not there shows nothing of itself. */
export function routesServed(): Promise<ReadonlySet<string>> {
  known ??= (async () => {
    const response = await fetch(urlOf('/openapi.json'))
    if (!response.ok) throw await refusalOf(response)
    const { paths } = (await response.json()) as { paths: Record<string, Record<string, unknown>> }
    return new Set(
      Object.entries(paths).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
      ),
    )
  })().catch((error: unknown) => {
    known = null
    throw error
  })
  return known
}
