import { dependencies } from '../../../../package.json'
import { product } from '../../../brand.ts'
import { isLoopback } from '../../../host/loopback.ts'
import type { EnrollmentTokenIssued } from '../../../protocol/wire/nodes/enrollment.ts'
import { CliFailure } from '../../frame/failure.ts'

/** Characters that are safe between double quotes in every shell. */
const plain = /^[A-Za-z0-9._~:/[\]%-]+$/

/** True if only programs on the gateway's own computer can reach this address. */
export const isLoopbackUrl = (url: string) => isLoopback(new URL(url).hostname)
/** True for http beyond loopback, which the agent refuses without --insecure. */
export const isPlainUrl = (url: string) => url.startsWith('http:') && !isLoopbackUrl(url)

/**
 * One command for the other computer. It fetches the agent from the gateway, continues only if the file is the one
 * that this gateway has named, and starts it with Bun. It runs in `sh -c`, because other shells split words
 * differently.
 */
export function enrollLine({ agent, gateway_url, enrollment_token }: EnrollmentTokenIssued): string {
  for (const word of [agent.url, agent.sha256, gateway_url, enrollment_token]) {
    if (!plain.test(word))
      throw new CliFailure(`The gateway's address does not fit into a shell command: ${gateway_url}`)
  }
  const insecure = isPlainUrl(gateway_url) ? ' --insecure' : ''
  const steps = [
    'set -e',
    `d="\${XDG_DATA_HOME:-$HOME/.local/share}/${product}"`,
    'mkdir -p "$d"',
    'cd "$d"',
    `curl -fsS "${agent.url}" -o agent.new || wget -q "${agent.url}" -O agent.new`,
    's=$(sha256sum agent.new 2>/dev/null || shasum -a 256 agent.new)',
    `[ "\${s%% *}" = ${agent.sha256} ] || { echo "The downloaded file is not the agent that this command expects." >&2; exit 1; }`,
    'mv agent.new agent.mjs',
    // `exec` replaces the shell by Bun, because npx would stay in between and keep signals to itself.
    `b=$(command -v bun || npx -y -p bun@${dependencies.bun} -c "command -v bun") || { echo "The agent needs Bun, or Node with npm." >&2; exit 1; }`,
    `exec "$b" agent.mjs --gateway "${gateway_url}" --token "${enrollment_token}"${insecure}`,
  ]
  return `sh -c '${steps.join('; ')}'`
}
