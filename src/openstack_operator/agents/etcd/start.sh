#!/bin/sh
# Starts a member of etcd; the arguments are its command. Founders begin the cluster together, until RECORD_FOLDER/state
# says that it exists; from then on a member without data has lost it, or is new. HOST is its name, ETCD_HOSTS has those
# of all members. PLAIN_PEER_URL is the URL by which the others call it if it never wrote down another one.
url=$ETCD_INITIAL_ADVERTISE_PEER_URLS
url_file=${ETCD_DATA_DIR%/*}/peer-url

has_data() { ls "$ETCD_DATA_DIR"/member/wal/*.wal > /dev/null 2>&1; }

# ask MEMBER COMMAND...: as every member, that one serves clients as this one is to serve them.
ask() {
    peer=$1
    shift
    endpoint=${ETCD_ADVERTISE_CLIENT_URLS%%:*}://$peer:${ETCD_ADVERTISE_CLIENT_URLS##*:}
    etcdctl --endpoints="$endpoint" --command-timeout=5s "$@"
}

# member_id MEMBER: prints by which ID that member has this one in its list; nothing if it has not.
member_id() {
    members=$(ask "$1" member list) || return
    echo "$members" | grep -F "//$HOST:" | cut -d, -f1
}

# The others would wait for the member that they remember, so they forget that one and add this one: to etcd a member
# with an empty disk is another one.
join() {
    for peer in $ETCD_HOSTS; do
        [ "$peer" != "$HOST" ] || continue
        id=$(member_id "$peer") || continue
        [ -z "$id" ] || ask "$peer" member remove "$id" || continue
        answer=$(ask "$peer" member add "$ETCD_NAME" --peer-urls="$url") || continue
        ETCD_INITIAL_CLUSTER=$(echo "$answer" | sed -n 's/^ETCD_INITIAL_CLUSTER="\(.*\)"$/\1/p')
        return 0
    done
    return 1
}

# update_url MEMBER: makes the cluster call this member by its present URL.
update_url() {
    id=$(member_id "$1") && [ -n "$id" ] || return
    ask "$1" member update "$id" --peer-urls="$url" && echo "$url" > "$url_file"
}

is_url_current() { [ "$(cat "$url_file" 2> /dev/null || echo "$PLAIN_PEER_URL")" = "$url" ]; }

until getent hosts "$HOST" > /dev/null; do sleep 0.5; done
if ! has_data; then
    rm -rf "$ETCD_DATA_DIR"
    echo "$url" > "$url_file"
elif ! is_url_current; then
    # Its URL has changed, since members speak TLS now. The others learn it before it starts, so that all that they say
    # goes that way once each of them has started since. If none of them answers, this one tells it to itself.
    for peer in $ETCD_HOSTS; do
        [ "$peer" = "$HOST" ] || ! update_url "$peer" || break
    done
    is_url_current || (until update_url "$HOST"; do sleep 2; done) &
fi
until has_data; do
    ETCD_INITIAL_CLUSTER=$(cat "$RECORD_FOLDER/founders")
    if [ "$(cat "$RECORD_FOLDER/state")" = new ] && echo ",$ETCD_INITIAL_CLUSTER" | grep -qF ",$ETCD_NAME="; then
        export ETCD_INITIAL_CLUSTER ETCD_INITIAL_CLUSTER_STATE=new
        break
    elif join; then
        export ETCD_INITIAL_CLUSTER ETCD_INITIAL_CLUSTER_STATE=existing
        break
    fi
    sleep 1
done
exec "$@"
