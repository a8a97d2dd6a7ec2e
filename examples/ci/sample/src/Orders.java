class Orders {
    static final String LATEST =
        "SELECT id, placed FROM shop.orders WHERE customer_id = ? LIMIT 10";
    static final String OPEN = "SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING";
}
