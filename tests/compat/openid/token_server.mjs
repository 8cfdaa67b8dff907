// oidc-provider as a server of access tokens for programs: `node token_server.mjs PORT SECRET LIFE-S`.
// Its keys are at /jwks.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [port, secret, lifeS] = process.argv.slice(2);
const found = createRequire(`${process.cwd()}/`).resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(found));
const program = { client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: ['loader', 'stranger'].map((client_id) => ({ ...program, client_id })),
  scopes: ['kafka'],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:brokers',
      getResourceServerInfo: () => ({
        scope: 'kafka', audience: 'brokers', accessTokenTTL: Number(lifeS), accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});
provider.listen(Number(port), '127.0.0.1');
