import { type Policy, PolicyFault, parsePolicy, policyBytesMax } from '../../../protocol/verify/policy.ts'
import { UsageFault } from '../../frame/failure.ts'

/** Reads a trust policy of C2SP `tlog-policy`. Throws `UsageFault`, which names the line that is wrong. */
export async function readPolicy(name: string): Promise<Policy> {
  const file = Bun.file(name)
  if (!(await file.exists())) throw new UsageFault(`The policy ${name} cannot be read`)
  if (file.size > policyBytesMax) throw new UsageFault(`The policy ${name} is larger than ${policyBytesMax} bytes`)
  try {
    return parsePolicy(await file.bytes())
  } catch (error) {
    if (!(error instanceof PolicyFault)) throw error
    throw new UsageFault(`${name}: ${error.message}`)
  }
}
