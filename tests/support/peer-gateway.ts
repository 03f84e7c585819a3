import { start } from '../../src/main.ts'
import { freePort } from './gateways/free-port.ts'
import { startTestGateway, type TestGateway } from './gateways/gateway.ts'

export const clusterSecret = 'a-secret-of-the-pool-of-gateways'

export interface PeerOptions {
  /** Where nodes dial; default: this gateway itself. */
  readonly publicUrl?: string
  readonly beside?: TestGateway
  readonly env?: Readonly<Record<string, string>>
}

/** One of several gateways on one PostgreSQL that pass on requests to each other; each is asked at its own port. */
export function startPeerGateway({ publicUrl, beside, env = {} }: PeerOptions): Promise<TestGateway> {
  const port = freePort()
  const url = `http://127.0.0.1:${port}`
  return startTestGateway({
    launch: async (given) => ({ ...(await start(given, { quiet: true })), url }),
    env: {
      ...env,
      SVC_PORT: String(port),
      SVC_PUBLIC_URL: publicUrl ?? url,
      SVC_PEER_URL: url,
      SVC_CLUSTER_SECRET: clusterSecret,
    },
    ...(beside === undefined ? {} : { beside }),
  })
}
