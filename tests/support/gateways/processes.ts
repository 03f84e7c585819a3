import { type Server, start } from '../../../src/main.ts'
import { startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts'

/** A gateway of several processes, supervised by this one. */
export interface ProcessGateway {
  readonly gateway: TestGateway
  /** The supervisor: its process ids, and the replacement. */
  readonly server: Server
}

export async function startProcesses(
  options: Omit<TestGatewayOptions, 'launch'> = {},
  processes = 2,
): Promise<ProcessGateway> {
  let server: Server | null = null
  const launch = async (env: Readonly<Record<string, string>>) => {
    server = await start({ ...env, SVC_PROCESSES: String(processes) }, { quiet: true })
    return server
  }
  const gateway = await startTestGateway({ ...options, launch })
  return { gateway, server: server as unknown as Server }
}

/** On a connection of its own: the kernel chooses the process. */
export const fresh = { keepalive: false } as const satisfies RequestInit
