import type { PrivateFolder } from '../../host/private-files.ts'
import type { Log } from '../../log.ts'
import type { TransportKeys } from '../commands/transport-keys.ts'
import { askToJoin, type JoinWish } from './asking-to-join.ts'
import {
  checkedGatewayUrl,
  checkSecure,
  type Enrollment,
  type EnrollmentRequest,
  enroll,
  keepEnrollment,
  NodeStartError,
  readEnrollment,
} from './enrollment.ts'
import type { Identity } from './identity.ts'
import { statePayee, wantPayee } from './payee.ts'

export interface JoinOptions {
  /**
   * The gateway's URL. It is absent if the folder is already enrolled, or if the agent serves its own computer alone.
   */
  readonly gatewayUrl?: string
  /** The token `svc_enroll_…`, which only the enrolment needs. */
  readonly token?: string
  readonly visibility?: 'private' | 'public'
  readonly payoutAddress?: string
  /**
   * The URL at which the gateway may call this agent directly, if the token allows it. Otherwise requests use the
   * tunnel.
   */
  readonly endpointUrl?: string
  /** Without a token: asks to join and has people compare words. */
  readonly words?: JoinByWords
  /** Allow a gateway without TLS beyond loopback. */
  readonly insecure?: boolean
  readonly log: Log
}

export interface JoinByWords extends Pick<JoinWish, 'talk' | 'signal' | 'askEveryMs'> {
  /** As this computer calls itself; the operator may choose another name. */
  readonly name: string | null
}

/** The agent's own keys, which it sends to the gateway at the enrolment. */
export interface OwnKeys {
  readonly identity: Identity
  readonly transportKeys: TransportKeys
}

/** Permission given at the enrolment holds for later starts. */
const insecureOf = ({ insecure = false }: JoinOptions, known: Enrollment | null = null) =>
  insecure || known?.insecure === true

/**
 * What can be said before anything is started, or asked of the gateway; true where the folder is enrolled. Throws
 * `NodeStartError`, `PrivateFileError`.
 */
export function checkJoining(options: JoinOptions, folder: PrivateFolder): boolean {
  const { gatewayUrl, token, words } = options
  const known = readEnrollment(folder)
  const given = gatewayUrl === undefined ? null : checkedGatewayUrl(gatewayUrl, insecureOf(options, known))
  if (known !== null) {
    if (given !== null && given !== known.gateway_url) {
      throw new NodeStartError(
        `${folder.path} belongs to a node of another gateway. Choose another folder with --data-dir, or omit --gateway.`,
      )
    }
    checkedGatewayUrl(known.gateway_url, insecureOf(options, known))
  } else if (given !== null && token === undefined && words === undefined) {
    throw new NodeStartError(
      'An enrolment needs --token beside --gateway, or somebody at this computer who compares words. An operator makes a token with `nodes enroll`.',
    )
  } else if (given === null && token !== undefined) {
    throw new NodeStartError(
      'An enrolment needs --gateway beside --token, with the URL of the gateway that made the token.',
    )
  }
  return known !== null
}

/** The stored enrolment, or a new one. null if neither was asked for. */
export async function enrolled(options: JoinOptions, folder: PrivateFolder, own: OwnKeys): Promise<Enrollment | null> {
  const enrollment = readEnrollment(folder) ?? (await enrolledNow(options, folder, own))
  if (enrollment !== null) checkSecure(new URL(enrollment.tunnel_url), insecureOf(options, enrollment))
  return enrollment
}

async function enrolledNow(options: JoinOptions, folder: PrivateFolder, own: OwnKeys): Promise<Enrollment | null> {
  const { gatewayUrl, token } = options
  if (gatewayUrl === undefined) return null
  const place = { gatewayUrl: checkedGatewayUrl(gatewayUrl, insecureOf(options)), insecure: insecureOf(options) }
  if (token === undefined) return options.words === undefined ? null : joined(options, place, folder, own)
  const { identity, transportKeys } = own
  const made = await enroll(
    {
      ...place,
      token,
      identity,
      transportKeys: transportKeys.published(),
      visibility: options.visibility ?? null,
      payoutAddress: options.payoutAddress ?? null,
      endpointUrl: options.endpointUrl ?? null,
    },
    folder,
  )
  options.log.info('enrolled', { node_id: made.node_id })
  await statePayeeOf(options, folder, identity, made)
  return made
}

/** What the node may be is the operator's choice alone; it has no token that would allow the agent to ask for less. */
async function joined(
  options: JoinOptions,
  place: Pick<EnrollmentRequest, 'gatewayUrl' | 'insecure'>,
  folder: PrivateFolder,
  { identity, transportKeys }: OwnKeys,
): Promise<Enrollment | null> {
  const { words, log } = options
  if (words === undefined) return null
  const wish = { ...words, gatewayUrl: place.gatewayUrl, identity, transportKeys: transportKeys.published(), log }
  const made = keepEnrollment(await askToJoin(wish), place, folder)
  log.info('joined', { node_id: made.node_id })
  await statePayeeOf(options, folder, identity, made)
  return made
}

/** In the node's own name, so that no operator can change it. A gateway that does not take it now is told again (`payee-stating.ts`). */
async function statePayeeOf(
  { payoutAddress }: JoinOptions,
  folder: PrivateFolder,
  identity: Identity,
  { gateway_url: gatewayUrl, node_id: nodeId }: Enrollment,
): Promise<void> {
  if (payoutAddress === undefined) return
  wantPayee(folder, payoutAddress)
  await statePayee({ folder, identity: identity.key, gatewayUrl, nodeId, payee: payoutAddress }).catch(() => {})
}
