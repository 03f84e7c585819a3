import { type Connection, type CredentialPlaces, findConnection } from './credentials.ts'
import { CliFailure } from './failure.ts'
import { GatewayClient } from './gateway-client.ts'
import type { Terminal } from './terminal.ts'

/** What a command works with. The gateway is looked for when a command first asks. */
export interface Session {
  readonly terminal: Terminal
  readonly env: CredentialPlaces['env']
  gateway(): GatewayClient
  connection(): Connection
  /** The customer named, else the one of the credentials file. Throws `CliFailure` where there is neither. */
  customer(named: string | undefined): string
  /** Prints what was asked for: the body as it came, or the text made of it. */
  show<T>(json: boolean, body: T, text: (body: T) => string): void
  /** False when the person said no. Asks only at a terminal, and not with `--yes`. */
  agreed(yes: boolean, question: string): Promise<boolean>
}

export function createSession(terminal: Terminal, places: CredentialPlaces): Session {
  let connection: Connection | null = null
  const connect = () => {
    connection ??= findConnection(places)
    return connection
  }
  return {
    terminal,
    env: places.env,
    connection: connect,
    gateway: () => new GatewayClient(connect()),
    customer: (named) => {
      const id = named ?? connect().customerId
      if (id !== null) return id
      throw new CliFailure('This command needs a customer. Name one with --customer ID.', ['./penstock customers list'])
    },
    show: (json, body, text) => terminal.out(json ? `${JSON.stringify(body, null, 2)}\n` : text(body)),
    agreed: async (yes, question) => {
      if (yes || !terminal.interactive || (await terminal.confirm(question))) return true
      terminal.err('Nothing was changed.\n')
      return false
    },
  }
}
