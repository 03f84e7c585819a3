import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { product } from '../../brand.ts'
import { folders } from '../../host/platform/platforms.ts'
import { checkoutRoot } from '../../host/program-files.ts'
import { CliFailure } from './failure.ts'

/** The gateway's address and the tokens for it. */
export interface Connection {
  /** Without a slash at the end. */
  readonly baseUrl: string
  readonly adminToken: string | null
  readonly gatewayKey: string | null
  /**
   * The second admin's token comes from the environment alone, because a file beside the first token would not be
   * another person's.
   */
  readonly approverToken: string | null
  /** The customer for commands that name none. */
  readonly customerId: string | null
  readonly customerToken: string | null
  /** Files that are missing or belong to another gateway. */
  readonly lookedAt: readonly string[]
}

export interface CredentialPlaces {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly home: string
  /** The checkout, whose `.data` is found from any folder. null in the built program, which has none. */
  readonly root: string | null
}

export const usualPlaces = (env: CredentialPlaces['env']): CredentialPlaces => ({
  env,
  cwd: process.cwd(),
  home: env.HOME ?? homedir(),
  root: checkoutRoot(),
})

const baseUrlDefault = 'http://127.0.0.1:7070'
const loopbackHosts: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

interface CredentialFile {
  readonly file: string
  readonly values: Readonly<Record<string, unknown>>
}

function candidates({ env, cwd, home, root }: CredentialPlaces): readonly string[] {
  const folder = text(env.SVC_DATA_DIR) ?? '.data'
  const dataFolders = [resolve(cwd, folder), ...(root === null ? [] : [resolve(root, folder)])]
  return [...new Set([join(folders(env, home).config, product), ...dataFolders])].map((path) =>
    join(path, 'credentials.json'),
  )
}

function readCredentialFile(file: string): CredentialFile | null {
  let content: string
  try {
    content = readFileSync(file, 'utf8')
  } catch {
    // The file is missing or belongs to another user, so it is not for us.
    return null
  }
  try {
    const values: unknown = JSON.parse(content)
    if (typeof values === 'object' && values !== null && !Array.isArray(values)) {
      return { file, values: values as CredentialFile['values'] }
    }
  } catch {
    // The error is reported below, because the parser's message would quote the file.
  }
  throw new CliFailure(`${file} is damaged: it does not contain a JSON object.`)
}

const text = (value: unknown): string | null => (typeof value === 'string' && value.trim() !== '' ? value.trim() : null)

function normalised(url: string, source: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new CliFailure(`${source} must be a URL that begins with http:// or https://`)
  }
  // People paste the base URL of their OpenAI client.
  return parsed.origin + parsed.pathname.replace(/\/+$/, '').replace(/\/v1(\/api)?$/, '')
}

/** A token goes only to the gateway for which it was made. All loopback addresses are this computer. */
function isSameServer(a: string, b: string): boolean {
  const [one, other] = [new URL(a), new URL(b)]
  if (one.origin === other.origin) return true
  return [one, other].every(({ hostname }) => loopbackHosts.includes(hostname))
}

interface FoundFile {
  readonly baseUrl: string | null
  readonly values: CredentialFile['values']
}

function readFiles(places: CredentialPlaces): { readonly found: readonly FoundFile[]; readonly lookedAt: string[] } {
  const lookedAt: string[] = []
  const found: FoundFile[] = []
  for (const path of candidates(places)) {
    const read = readCredentialFile(path)
    const url = text(read?.values.base_url)
    if (read === null) lookedAt.push(path)
    else found.push({ baseUrl: url === null ? null : normalised(url, `base_url in ${path}`), values: read.values })
  }
  return { found, lookedAt }
}

/** Throws `CliFailure` for a damaged file or an invalid base URL. */
export function findConnection(places: CredentialPlaces): Connection {
  const { env } = places
  const { found, lookedAt } = readFiles(places)
  const given = text(env.SVC_BASE_URL)
  const baseUrl =
    given === null
      ? (found.find((file) => file.baseUrl !== null)?.baseUrl ?? baseUrlDefault)
      : normalised(given, 'SVC_BASE_URL')
  const fitting = found.filter((file) => isSameServer(file.baseUrl ?? baseUrlDefault, baseUrl))
  const first = (names: readonly string[]): string | null => {
    for (const { values } of fitting)
      for (const name of names) if (text(values[name]) !== null) return text(values[name])
    return null
  }
  return {
    baseUrl,
    adminToken: text(env.SVC_ADMIN_TOKEN) ?? first(['admin_token', 'operator_token', 'viewer_token']),
    gatewayKey: text(env.SVC_GATEWAY_KEY) ?? first(['gateway_key']),
    approverToken: text(env.SVC_APPROVER_TOKEN),
    customerId: text(env.SVC_CUSTOMER_ID) ?? first(['customer_id']),
    customerToken: text(env.SVC_CUSTOMER_TOKEN) ?? first(['customer_token']),
    lookedAt,
  }
}
