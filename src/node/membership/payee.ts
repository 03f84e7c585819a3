import type { PrivateFolder } from '../../host/private-files.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { payeeMessage } from '../../protocol/signing/signatures.ts'
import { fieldsOf, textOf } from '../../protocol/verify/given.ts'
import { isoTime } from '../../time.ts'
import { NodeStartError } from './enrollment.ts'

/** What this node has signed last of where its earnings go. */
export interface OwnPayee {
  /** `0x` and 40 hex digits in lower case. */
  readonly payee: string
  /** RFC 3339 UTC. */
  readonly signedAt: string
}

const file = 'payee.json'
const answerTimeoutMs = 10_000
const answerBytesMax = 64 * 1024

/** null: the node has never said so itself. */
export function readOwnPayee(folder: PrivateFolder): OwnPayee | null {
  const { payee, signed_at: signedAt } = fieldsOf(folder.read(file))
  const [to, at] = [textOf(payee), textOf(signedAt)]
  return to === null || at === null ? null : { payee: to, signedAt: at }
}

/** What the owner has asked for at the enrolment, and the gateway has not taken yet; null: nothing. */
export const readWantedPayee = (folder: PrivateFolder): string | null => textOf(fieldsOf(folder.read(file)).wanted)

/** To be stated, over restarts. What the node has stated replaces it. */
export const wantPayee = (folder: PrivateFolder, payee: string): void => folder.write(file, { wanted: payee })

export interface PayeeStatementOptions {
  readonly folder: PrivateFolder
  readonly identity: SigningKey
  readonly gatewayUrl: string
  readonly nodeId: string
  readonly payee: string
}

/** Signs where the node's earnings go, and tells the gateway. Throws `NodeStartError` with the gateway's own words. */
export async function statePayee(options: PayeeStatementOptions): Promise<OwnPayee> {
  const { folder, identity, gatewayUrl, nodeId } = options
  const payee = options.payee.toLowerCase()
  if (!/^0x[0-9a-f]{40}$/.test(payee))
    throw new NodeStartError('A payee is an Ethereum address: 0x and 40 hexadecimal digits.')
  const signedAt = isoTime(Date.now())
  const body = { payee, signed_at: signedAt, signature_ed25519: identity.sign(payeeMessage(nodeId, payee, signedAt)) }
  const response = await fetch(`${gatewayUrl}/v1/nodes/${nodeId}/payee`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    redirect: 'error',
    signal: AbortSignal.timeout(answerTimeoutMs),
  }).catch(() => null)
  if (response === null) throw new NodeStartError('The gateway does not answer.')
  const { title, code } = fieldsOf(await foreignAnswer(response, answerBytesMax).catch(() => null))
  if (!response.ok) {
    throw new NodeStartError(
      `The gateway refused the payee: ${textOf(title) ?? `HTTP ${response.status}`} (${textOf(code) ?? response.status})`,
    )
  }
  folder.write(file, { payee, signed_at: signedAt })
  return { payee, signedAt }
}
