import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { announcedGateways, type FoundGateway } from '../../../discovery/gateways.ts'
import { isLoopback } from '../../../host/loopback.ts'
import type { NodeOptions } from '../../../node/node-options.ts'
import type { Session } from '../../frame/session.ts'
import { shortTime } from '../../frame/table.ts'
import { printable } from '../../frame/terminal.ts'

/** How long the local network may take to name its gateways, ms. */
const lookMs = 2_500
const nameCharactersMax = 64

export interface JoinInput {
  readonly gateway: string | undefined
  readonly token: string | undefined
  readonly insecure: boolean
  readonly dataDir: string
  readonly discover: boolean
  readonly json: boolean
}

type Joining = Pick<NodeOptions, 'gatewayUrl' | 'insecure' | 'words'>

/** How this computer calls itself; the operator may choose another name. */
export function ownName(name = hostname()): string | null {
  const clean = printable(name).trim().slice(0, nameCharactersMax)
  return clean === '' ? null : clean
}

/** Which gateway the agent is to join, and how: by the words of a person where it has no token. */
export async function joiningOf(input: JoinInput, session: Session, signal: AbortSignal): Promise<Joining> {
  const { gateway, token, insecure } = input
  const found = gateway === undefined && token === undefined ? await foundGateway(input, session, signal) : null
  const url = gateway ?? found?.url
  return {
    // The person was warned and has agreed. For a gateway with TLS there was nothing to ask.
    insecure: insecure || (found !== null && isOpen(found.url)),
    ...(url === undefined ? {} : { gatewayUrl: url }),
    ...(token === undefined ? { words: { name: ownName(), signal, talk: talkIn(session, input.json) } } : {}),
  }
}

/** Others in the network could read what goes there. */
export const isOpen = (gatewayUrl: string): boolean =>
  gatewayUrl.startsWith('http:') && !isLoopback(new URL(gatewayUrl).hostname)

/** Nobody is asked where no person could answer: a service goes on for its own computer alone. */
async function foundGateway(
  { dataDir, discover }: JoinInput,
  { terminal }: Session,
  signal: AbortSignal,
): Promise<FoundGateway | null> {
  if (!discover || !terminal.interactive || (await isEnrolled(dataDir))) return null
  const failed = (failure: string) => terminal.err(`The local network could not be asked for gateways (${failure}).\n`)
  const found = await announcedGateways({ withinMs: lookMs, signal, failed })
  const [only, ...others] = found
  if (only === undefined) return null
  if (others.length > 0) {
    terminal.err(
      `Several gateways announce themselves. Choose one with --gateway:\n${found.map(({ url }) => `  ${url}\n`).join('')}`,
    )
    return null
  }
  const warning = isOpen(only.url) ? ' The connection has no TLS, so others in this network could read prompts.' : ''
  const asked = `A gateway announces itself as ${only.url}.${warning} Ask to join it?`
  return (await terminal.confirm(asked, signal)) ? only : null
}

async function isEnrolled(path: string): Promise<boolean> {
  if (!existsSync(path)) return false
  const [{ readEnrollment }, { openPrivateFolder }] = await Promise.all([
    import('../../../node/membership/enrollment.ts'),
    import('../../../host/private-files.ts'),
  ])
  return readEnrollment(openPrivateFolder(path)) !== null
}

function talkIn({ terminal }: Session, json: boolean): NonNullable<NodeOptions['words']>['talk'] {
  return {
    show: ({ words, gatewayUrl, expiresAt }) => {
      if (json) {
        terminal.out(`${JSON.stringify({ joining: gatewayUrl, words, expires_at: expiresAt })}\n`)
        return
      }
      terminal.out(`This computer asks ${gatewayUrl} to join, until ${shortTime(expiresAt)}. Its words:

  ${terminal.style('bold', words)}

Compare them on the gateway, in the console under Pool or with: ./penstock nodes join
Confirm there only what shows the same six words.
`)
    },
    agrees: (signal) => terminal.confirm('Does the gateway show the same six words?', signal),
  }
}
