import { isPrivateAddress } from './address-range.ts'
import { announcedServices, type Looking } from './announced-services.ts'
import { knownPorts, type ServerPlace } from './server-looks.ts'

/** Names by which model servers, or those who run them, announce them. Nobody has registered one for all. */
const types = ['_ollama._tcp', '_llm._tcp', '_openai._tcp', '_lmstudio._tcp', '_llama-cpp._tcp']
/** Anything with a web page: only those on the port of a model server are asked. */
const anyWebServer = '_http._tcp'
const placesMax = 64

/** Where the local network says that model servers are. Whether they are is for a look to find out. Never rejects. */
export async function announcedServers(looking: Looking): Promise<readonly ServerPlace[]> {
  const answers = await Promise.all(
    [...types, anyWebServer].map(async (type) => {
      const services = await announcedServices(type, looking)
      return type === anyWebServer ? services.filter(({ port }) => knownPorts.includes(port)) : services
    }),
  )
  const places = new Map<string, ServerPlace>()
  for (const { addresses, port } of answers.flat()) {
    for (const address of addresses.filter(isPrivateAddress)) places.set(`${address}:${port}`, { address, port })
  }
  return [...places.values()].slice(0, placesMax)
}
