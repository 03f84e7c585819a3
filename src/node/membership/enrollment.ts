import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { isLoopback } from '../../host/loopback.ts'
import { PrivateFileError, type PrivateFolder } from '../../host/private-files.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import { enrollMessage } from '../../protocol/signing/signatures.ts'
import { agentProtocolVersion, EnrollResponse, type TransportKey } from '../../protocol/wire/nodes/agent.ts'
import type { Identity } from './identity.ts'

export const enrollmentFile = 'enrollment.json'

/** The result of the enrolment. It is stored, so that later starts need no token. */
const StoredEnrollment = Type.Composite([
  Type.Object({
    gateway_url: Type.String(),
    insecure: Type.Optional(Type.Boolean({ description: 'The operator allowed a gateway without TLS' })),
  }),
  Type.Omit(EnrollResponse, ['status', 'protocol_version']),
])
export type Enrollment = Static<typeof StoredEnrollment>

/** An error that the operator of the node can fix. Its text says all they need. */
export class NodeStartError extends Error {
  override readonly name = 'NodeStartError'
}

/** null before the first enrolment. Throws `PrivateFileError`. */
export function readEnrollment(folder: PrivateFolder): Enrollment | null {
  const stored = folder.read(enrollmentFile)
  if (stored === undefined) return null
  if (!Value.Check(StoredEnrollment, stored)) throw new PrivateFileError(`${folder.path}/${enrollmentFile} is damaged`)
  return stored
}

export interface EnrollmentRequest {
  readonly gatewayUrl: string
  readonly token: string
  readonly identity: Identity
  readonly transportKeys: readonly TransportKey[]
  readonly visibility: 'private' | 'public' | null
  readonly payoutAddress: string | null
  readonly endpointUrl: string | null
  readonly insecure: boolean
}

const enrollPath = '/v1/node-agent/enroll'
const answerTimeoutMs = 30_000
/** Far more than an enrolment's answer, with all keys of the gateway. */
const answerBytesMax = 64 * 1024

/** Exchanges the single-use token for a node id (§22). Throws `NodeStartError`. */
export async function enroll(request: EnrollmentRequest, folder: PrivateFolder): Promise<Enrollment> {
  const unsigned = {
    protocol_version: agentProtocolVersion,
    enrollment_token: request.token,
    public_key_ed25519: request.identity.key.publicKey,
    transport_keys: request.transportKeys,
    ...(request.visibility === null ? {} : { visibility: request.visibility }),
    ...(request.payoutAddress === null ? {} : { payout_address: request.payoutAddress }),
    ...(request.endpointUrl === null ? {} : { endpoint_url: request.endpointUrl }),
  }
  const signature = request.identity.key.sign(enrollMessage(unsigned))
  const answer = await ask(request.gatewayUrl + enrollPath, { ...unsigned, signature_ed25519: signature })
  if (!Value.Check(EnrollResponse, answer)) {
    throw new NodeStartError('This version does not understand the gateway’s answer to the enrolment.')
  }
  return keepEnrollment(answer, request, folder)
}

/** Later starts need neither token nor words. */
export function keepEnrollment(
  answer: EnrollResponse,
  { gatewayUrl, insecure }: Pick<EnrollmentRequest, 'gatewayUrl' | 'insecure'>,
  folder: PrivateFolder,
): Enrollment {
  const { status: _, protocol_version: __, ...rest } = answer
  const enrollment = { gateway_url: gatewayUrl, ...(insecure ? { insecure: true } : {}), ...rest }
  folder.write(enrollmentFile, enrollment)
  return enrollment
}

async function ask(url: string, body: object): Promise<unknown> {
  let response: Response
  let answer: unknown
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      redirect: 'error',
      signal: AbortSignal.timeout(answerTimeoutMs),
    })
    answer = await foreignAnswer(response, answerBytesMax)
  } catch {
    throw new NodeStartError('The gateway does not answer. Check the address in --gateway and the network.')
  }
  if (!response.ok) throw new NodeStartError(refusal('enrolment', response.status, answer))
  return answer
}

/** The gateway's own words, a title and a code. The token never appears. */
export function refusal(what: 'enrolment' | 'join', status: number, answer: unknown): string {
  const { title, detail, code } = (answer ?? {}) as Readonly<Record<string, unknown>>
  const said = [title, detail].filter((text) => typeof text === 'string' && text.length <= 500)
  const words = [...new Set(said)].join('. ')
  return `The gateway refused the ${what}: ${words === '' ? `HTTP ${status}` : words} (${typeof code === 'string' ? code : status})`
}

/** Accepts https and wss, or loopback. Other URLs need the operator's consent (§22). */
export function checkedGatewayUrl(text: string, insecure: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.search !== '' || url.hash !== '') {
    throw new NodeStartError('--gateway must be the URL of the gateway, like https://gateway.example')
  }
  if (url.username !== '' || url.password !== '') throw new NodeStartError('--gateway must not contain a password')
  checkSecure(url, insecure)
  return url.origin + url.pathname.replace(/\/+$/, '')
}

export function checkSecure(url: URL, insecure: boolean): void {
  const secure = url.protocol === 'https:' || url.protocol === 'wss:'
  if (secure || insecure || isLoopback(url.hostname)) return
  throw new NodeStartError(
    'The connection to the gateway has no TLS, so others could read prompts and steal the token. Use https, or add --insecure if the network is your own.',
  )
}
