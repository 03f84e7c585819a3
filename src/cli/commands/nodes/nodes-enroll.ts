import { isLoopback } from '../../../host/loopback.ts'
import type { EnrollmentTokenIssued } from '../../../protocol/wire/nodes/enrollment.ts'
import { action, type OptionSpecs } from '../../frame/action.ts'
import { customerOption, reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { CliFailure } from '../../frame/failure.ts'
import { shortTime } from '../../frame/table.ts'
import type { Terminal } from '../../frame/terminal.ts'

const path = '/v1/admin/enrollment-tokens'

const options = {
  ...customerOption,
  visibility: {
    kind: 'choice',
    of: ['private', 'public'],
    about: 'Who may use the node at most (default private: only its owner)',
  },
  'node-class': { kind: 'text', value: 'CLASS', about: 'A route tier that policies can name (default standard)' },
  'privacy-class': {
    kind: 'choice',
    of: ['public', 'trusted', 'private'],
    about: 'How far other customers may trust the node with prompts (default private)',
  },
  direct: {
    kind: 'flag',
    about: 'Let the gateway call the node at its own https address instead of through its tunnel',
  },
  windows: { kind: 'flag', about: 'Print the line for PowerShell, for a computer with Windows' },
  ...reasonOption,
} as const satisfies OptionSpecs

const isLoopbackUrl = (url: string) => isLoopback(new URL(url).hostname)

/** Reasons why the command may not work on another computer. */
function warnings({ gateway_url: url }: EnrollmentTokenIssued): string {
  if (isLoopbackUrl(url)) {
    return `Only this computer can reach ${url}. To reach the gateway from another one, start it with SVC_HOST and SVC_PUBLIC_URL.\n`
  }
  return url.startsWith('http:')
    ? 'The connection to the gateway has no TLS: others on the way could read prompts and steal the token.\n'
    : ''
}

function instructions(terminal: Terminal, made: EnrollmentTokenIssued, windows: boolean): string {
  const until = shortTime(made.expires_at)
  const line = windows ? made.powershell_line : made.line
  if (line === null) {
    throw new CliFailure(`The gateway's address does not fit into a shell command: ${made.gateway_url}`)
  }
  return `Paste this ${windows ? 'into PowerShell ' : ''}on the other computer, once and before ${until}. Options for the agent, such as --runtime URL, may follow it:\n\n${terminal.style('bold', line)}\n`
}

export const enroll = action({
  about: 'Print the command that makes another computer a node, also behind NAT',
  operands: [{ name: 'NAME', about: 'The name of the node that lists show' }],
  options,
  run: async ({ operands, options: given, json }, session) => {
    const made = await session.gateway().admin<EnrollmentTokenIssued>({
      method: 'POST',
      path,
      body: {
        customer_id: session.customer(given.customer),
        name: operands[0],
        visibility: given.visibility ?? 'private',
        node_class: given['node-class'] ?? 'standard',
        privacy_class: given['privacy-class'] ?? 'private',
        endpoint_url_allowed: given.direct,
        ...reasonBody(given.reason),
      },
    })
    const warning = warnings(made)
    if (warning !== '') session.terminal.err(warning)
    session.show(json, made, (body) => instructions(session.terminal, body, given.windows))
    return undefined
  },
})
