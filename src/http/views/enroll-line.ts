import { dependencies } from '../../../package.json'
import { product } from '../../brand.ts'
import { isLoopback } from '../../host/loopback.ts'
import type { EnrollmentTokenIssued } from '../../protocol/wire/nodes/enrollment.ts'

/** Characters that are safe between quotes in every shell. */
const plain = /^[A-Za-z0-9._~:/[\]% -]+$/

/** The agent refuses http beyond loopback without this. */
const insecureOf = (url: string) => (url.startsWith('http:') && !isLoopback(new URL(url).hostname) ? ' --insecure' : '')

/** Fetches `url` into `file` with whichever program there is. */
const fetched = (url: string, file: string, header = '') =>
  `{ curl -fsS${header === '' ? '' : ` -H "${header}"`} "${url}" -o ${file} || wget -q${header === '' ? '' : ` --header "${header}"`} "${url}" -O ${file}; }`

/** Sets `s` to the file's digest. */
const digest = (file: string) => `s=$(sha256sum ${file} 2>/dev/null || shasum -a 256 ${file})`
const isDigest = (sha256: string) => `[ "\${s%% *}" = ${sha256} ]`

/** The Bun that the gateway itself runs on, for a computer of the same platform; it must start there, too. */
function ownBun({ bun, enrollment_token: token }: Line): string[] {
  if (bun === null) return []
  const steps = [
    `[ "$(uname -sm)" = "${bun.platform}" ]`,
    fetched(bun.url, 'bun.new', `authorization: Bearer ${token}`),
    digest('bun.new'),
    isDigest(bun.sha256),
    'chmod 700 bun.new',
    './bun.new --version >/dev/null',
    'mv bun.new bun',
    'b="$d/bun"',
  ]
  return [`[ -n "$b" ] || { ${steps.join(' && ')}; } 2>/dev/null || true`]
}

type Line = Pick<EnrollmentTokenIssued, 'agent' | 'bun' | 'gateway_url' | 'enrollment_token'>

/**
 * One command for the other computer. It fetches the agent from the gateway, continues only if the file is the one
 * that this gateway has named, and starts it with Bun. It runs in `sh -c`, because other shells split words
 * differently; what is written behind it goes to the agent. null: the gateway's address does not fit into a shell's word.
 */
export function enrollLine(line: Line): string | null {
  const { agent, bun, gateway_url, enrollment_token } = line
  const words = [agent.url, agent.sha256, gateway_url, enrollment_token]
  const all = bun === null ? words : [...words, bun.url, bun.sha256, bun.platform]
  if (!all.every((word) => plain.test(word))) return null
  const npx = `npm_config_fetch_retries=0 npx -y -p bun@${dependencies.bun} -c "command -v bun"`
  const steps = [
    'set -e',
    `d="\${XDG_DATA_HOME:-$HOME/.local/share}/${product}"`,
    'mkdir -p "$d"',
    'cd "$d"',
    fetched(agent.url, 'agent.new'),
    digest('agent.new'),
    `${isDigest(agent.sha256)} || { echo "The downloaded file is not the agent that this command expects." >&2; exit 1; }`,
    'mv agent.new agent.mjs',
    'b=$(command -v bun) || b=""',
    ...ownBun(line),
    // `exec` replaces the shell by Bun, because npx would stay in between and keep signals to itself.
    `[ -n "$b" ] || b=$(${npx}) || { echo "The agent needs Bun, or Node with npm and a network to fetch Bun." >&2; exit 1; }`,
    `exec "$b" agent.mjs --gateway "${gateway_url}" --token "${enrollment_token}"${insecureOf(gateway_url)} "$@"`,
  ]
  return `sh -c '${steps.join('; ')}' ${product}`
}

/**
 * The line of `enrollLine` for PowerShell, on Windows. What is written behind it goes to the agent. null: the gateway's address does not fit
 * into a shell's word.
 */
export function powershellLine({ agent, gateway_url, enrollment_token }: Omit<Line, 'bun'>): string | null {
  if (![agent.url, agent.sha256, gateway_url, enrollment_token].every((word) => plain.test(word))) return null
  const words = `agent.mjs --gateway '${gateway_url}' --token '${enrollment_token}'${insecureOf(gateway_url)} @args`
  const steps = [
    "$ErrorActionPreference = 'Stop'",
    // Otherwise PowerShell 5 draws each kilobyte.
    "$ProgressPreference = 'SilentlyContinue'",
    `$d = Join-Path $env:LOCALAPPDATA '${product}'`,
    'New-Item -ItemType Directory -Force $d | Out-Null',
    'Set-Location $d',
    `Invoke-WebRequest -UseBasicParsing '${agent.url}' -OutFile agent.new`,
    `if ((Get-FileHash agent.new -Algorithm SHA256).Hash -ne '${agent.sha256}') { throw 'The downloaded file is not the agent that this command expects.' }`,
    'Move-Item -Force agent.new agent.mjs',
    // npm's own script is one that PowerShell may refuse to run.
    `if (Get-Command bun -ErrorAction SilentlyContinue) { bun ${words} } else { npx.cmd -y bun@${dependencies.bun} ${words} }`,
  ]
  return `& { ${steps.join('; ')} }`
}
