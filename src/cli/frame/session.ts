import { type Connection, type CredentialPlaces, findConnection } from './credentials.ts'
import { CliFailure } from './failure.ts'
import { GatewayClient } from './gateway-client.ts'
import type { Terminal } from './terminal.ts'

/** The tools of a command. The gateway's address is read when a command first needs it. */
export interface Session {
  readonly terminal: Terminal
  readonly env: CredentialPlaces['env']
  gateway(): GatewayClient
  connection(): Connection
  /** The named customer, or the one in the credentials file. Throws `CliFailure` if there is neither. */
  customer(named: string | undefined): string
  /** Prints the body as JSON, or the text made of it. */
  show<T>(json: boolean, body: T, text: (body: T) => string): void
  /** False if the person declined. It asks only at a terminal and without `--yes`. */
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
